"""AMC problems with numeric answers. Rows of ``{prompt, answer, id}``; answers may be written as floats."""

from __future__ import annotations

from mappa_env.data.base import ListTaskSet
from mappa_env.data.contest import load_contest


def load(split: str, *, exclude: str | None = None) -> ListTaskSet:
    """See ``contest.load_contest``."""
    return load_contest("amc", split, exclude)
