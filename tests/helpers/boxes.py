"""Replies with an answer in a box."""

from __future__ import annotations


def boxed(text: object) -> str:
    """A reply whose box holds ``text``."""
    return rf"So the answer is \boxed{{{text}}}."
