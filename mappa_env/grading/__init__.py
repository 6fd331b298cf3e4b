"""Graders by name. A grader computes the outcome of an episode on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mappa_env import plugins
from mappa_env.grading.base import FreshSandbox, Grader, RunningGrader

__all__ = ["GRADERS", "FreshSandbox", "Grader", "RunningGrader", "make_grader", "running"]

GRADERS = plugins.Kind(
    name="grader",
    option="grader",
    group="mappa.graders",
    builtin={
        "math": "mappa_env.grading.math:MathGrader",
        "text": "mappa_env.grading.text:TextGrader",
        "submission": "mappa_env.grading.submission:SubmissionGrader",
    },
    methods={"grade": (3, ())},
    more={"grade": 1},
    advice="Write a class with grade(self, task, actions, workspace) that returns an Outcome; one that runs "
    "code takes a sandbox as its fourth argument.",
)


def make_grader(name: str, options: Mapping[str, Any] | None = None) -> Grader:
    """Create a grader from its name; see ``GRADERS``. ``options`` are its keywords. Raises OptionError."""
    grader: Grader = GRADERS.make(name, **(options or {}))
    return grader


def running(grader: Grader) -> RunningGrader | None:
    """``grader`` if its ``grade`` takes a sandbox as the fourth argument, else None."""
    return cast(RunningGrader, grader) if plugins.callable_with(grader, "grade", 4) else None
