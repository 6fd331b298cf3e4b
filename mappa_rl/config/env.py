"""The environment and its coach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator

from mappa_env.sandbox import DEFAULT
from mappa_rl.config.base import Section


class Env(Section):
    """The environment. ``options`` turns it into the keywords of ``gym.make``."""

    id: str = "mappa/MathChat-v0"
    """Environment id, as in ``gym.make(id)``, a shipped card (``mathchat``), or the path of a card folder."""
    tasks_train: str = "train"
    """Split of the card, or a path to task files, to train on."""
    tasks_eval: str = "eval"
    """Split of the card, or a path to task files, that is held out for evaluation."""
    task_options: dict[str, Any] = {}
    """Options of the card's task loader for both splits, for example ``levels: [1, 2]``."""
    prompts: Literal["full", "brief", "compact"] = "compact"
    """Length of the prompts: ``full`` for large models, ``brief`` for small language models,
    ``compact`` for small vocabularies."""
    coach: str | dict[str, Any] = "rubric"
    """The coach that scores actions: ``rubric``, ``off``, or another coach's name or mapping."""
    coach_feedback: Literal["off", "agents"] = "off"
    """``agents``: the agents see the coach's verdicts on earlier actions."""
    judging: Literal["blocking", "deferred"] = "blocking"
    """``deferred``: the coach judges in the background while the team continues; for slow coaches."""
    sandbox: str | dict[str, Any] = DEFAULT
    """Where the agents' code runs: a backend's name or mapping."""
    shaping: str | dict[str, Any] = "process"
    """Reward of an action: ``process`` (its own score), ``outcome``, ``mixed``, or a mapping."""

    @field_validator("id")
    @classmethod
    def _absolute(cls, value: str) -> str:
        """Make the path of a folder absolute, so that a run can be resumed from anywhere."""
        return str(Path(value).resolve()) if os.path.isdir(value) else value

    def options(self, split: Literal["train", "eval"]) -> dict[str, Any]:
        """The keywords of ``gym.make`` for one of the two task sets."""
        keywords = self.model_dump(exclude={"id", "tasks_train", "tasks_eval"})
        return {**keywords, "tasks": self.tasks_train if split == "train" else self.tasks_eval}
