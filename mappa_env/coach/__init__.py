"""Coaches by name: who scores every action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach.base import Coach, OffCoach
from mappa_env.errors import OptionError, nearest

__all__ = ["COACHES", "Coach", "OffCoach", "make_coach"]

COACHES = ("rubric", "off")
MODELS = ("gemini", "openai", "replay")
"""Kinds of coaches that are followed by a name: ``gemini:<model>``."""


def make_coach(spec: str | Mapping[str, Any], card: Card) -> Coach:
    """The coach that ``spec`` names (``"rubric"``, ``"off"`` or ``{"name": ...}``) for ``card``.

    Raises OptionError for a name that is not offered, CardError for a card whose rubric is malformed.
    """
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    if str(name).partition(":")[0] in MODELS:
        from mappa_env.coach.llm.make import make_llm_coach

        return make_llm_coach(str(name), options, card)
    if name not in COACHES:
        raise OptionError(
            f"no coach {name!r}; there are {COACHES} and {MODELS}." + nearest(str(name), (*COACHES, *MODELS))
        )
    known = {"corrector"} if name == "rubric" else set()
    if extra := set(options) - known:
        raise OptionError(
            f"the coach {name!r} takes {sorted(known) or 'no options'}, found {sorted(map(str, extra))}."
        )
    if name == "off":
        return OffCoach()
    if card.rubric is None:
        raise OptionError(f"coach='rubric': the card {card.id} has no rubric; use coach='off'.")
    from mappa_env.coach.rubric import RubricCoach

    return RubricCoach(card, **options)
