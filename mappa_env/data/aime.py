"""AIME problems: integer answers 0-999. Rows of ``{prompt, answer}``, with ``year, part, problem_number``
or the ``url`` of the problem's page where there is one."""

from __future__ import annotations

from mappa_env.data.base import ListTaskSet
from mappa_env.data.contest import load_contest


def load(split: str, *, exclude: str | None = None) -> ListTaskSet:
    """See ``contest.load_contest``."""
    return load_contest("aime", split, exclude)
