"""Graders by name. A grader computes the outcome of an episode on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env import plugins
from mappa_env.grading.base import Grader

__all__ = ["GRADERS", "Grader", "make_grader"]

GRADERS = plugins.Kind(
    name="grader",
    option="grader",
    group="mappa.graders",
    builtin={
        "math": "mappa_env.grading.math:MathGrader",
        "submission": "mappa_env.grading.submission:SubmissionGrader",
    },
    methods={"grade": (3, ())},
    advice="Write a class with grade(self, task, actions, workspace) that returns an Outcome.",
)


def make_grader(name: str, options: Mapping[str, Any] | None = None) -> Grader:
    """Create a grader from its name; see ``GRADERS``. ``options`` are its keywords. Raises OptionError."""
    grader: Grader = GRADERS.make(name, **(options or {}))
    return grader
