"""Graders by name: how an episode ended, decided on the host."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.grading.base import Grader

__all__ = ["GRADERS", "Grader", "make_grader"]

GRADERS = {"math": "MathGrader", "submission": "SubmissionGrader"}
"""Name, also of the module, and class."""


def make_grader(name: str, options: Mapping[str, Any] | None = None) -> Grader:
    """The grader of that name; ``options`` are its keywords. Raises OptionError."""
    if name not in GRADERS:
        known = ", ".join(GRADERS)
        raise OptionError(f"no grader {name!r}; there are {known}." + nearest(str(name), GRADERS))
    module: Any = importlib.import_module(f"mappa_env.grading.{name}")
    try:
        grader: Grader = getattr(module, GRADERS[name])(**(options or {}))
    except TypeError as error:
        raise OptionError(f"the grader {name!r} does not take these options: {error}") from None
    return grader
