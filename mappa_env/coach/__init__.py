"""Coaches by name. A coach scores every action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env import plugins
from mappa_env.cards import Card
from mappa_env.coach.base import BaseCoach, Coach, OffCoach
from mappa_env.errors import OptionError

__all__ = ["COACHES", "MODELS", "BaseCoach", "Coach", "OffCoach", "make_coach"]

_LLM = "mappa_env.coach.llm.make:make_llm_coach"
MODELS = {"gemini:<model>": _LLM, "openai:<model>@<url>": _LLM, "replay:<path>": _LLM}
"""Coaches that ask a language model, or replay its recorded answers."""
COACHES = plugins.Kind(
    name="coach",
    option="coach",
    group="mappa.coaches",
    builtin={
        "rubric": "mappa_env.coach.rubric.coach:RubricCoach",
        "off": "mappa_env.coach.base:OffCoach",
        **MODELS,
    },
    methods={
        "judge": (1, ("fresh",)),
        "judge_many": (1, ()),
        "judge_later": (1, ()),
        "blame": (2, ()),
        "wait": (0, ()),
        "close": (0, ()),
    },
    attributes={"name": str, "deterministic": bool, "corrects": bool, "labels": bool},
    takes="the card",
    advice="Subclass mappa_env.coach.BaseCoach and write judge(self, evidence, *, fresh=False).",
)


def make_coach(spec: str | Mapping[str, Any], card: Card) -> Coach:
    """Create the coach for ``card`` from its name or from ``{"name": ..., **options}``; see ``COACHES``.

    Your own coach is called as ``Class(card, **options)``. Raises OptionError for an unknown name or option,
    CardError for a malformed rubric, CoachError or CoachStopped if the model is not available.
    """
    name, options = COACHES.split(spec)
    made: Coach
    if name.partition(":")[0] in {key.partition(":")[0] for key in MODELS}:
        made = COACHES.find(name)(name, options, card)
    else:
        made = COACHES.make(name, card, **options)
    if type(made).judge is BaseCoach.judge:
        raise OptionError(f"coach={name!r} is not a coach: judge() is missing. {COACHES.advice}")
    return made
