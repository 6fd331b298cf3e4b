"""Graders by name: how an episode ended, decided on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.grading.base import Grader

__all__ = ["GRADERS", "Grader", "make_grader"]

GRADERS = ("math", "submission")


def make_grader(name: str, options: Mapping[str, Any] | None = None) -> Grader:
    """The grader of that name; ``options`` are its keywords. Raises OptionError."""
    kind: Any
    if name == "math":
        from mappa_env.grading.math import MathGrader as kind
    elif name == "submission":
        from mappa_env.grading.submission import SubmissionGrader as kind
    else:
        raise OptionError(f"no grader {name!r}; there are {GRADERS}." + nearest(str(name), GRADERS))
    try:
        grader: Grader = kind(**(options or {}))
    except TypeError as error:
        raise OptionError(f"the grader {name!r} does not take these options: {error}") from None
    return grader
