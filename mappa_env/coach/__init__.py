"""Coaches by name: who scores every action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach.base import Coach, OffCoach
from mappa_env.errors import OptionError, nearest

__all__ = ["COACHES", "Coach", "OffCoach", "make_coach"]

COACHES = ("rubric", "off")
_PLANNED = ("gemini", "openai", "replay")


def make_coach(spec: str | Mapping[str, Any], card: Card) -> Coach:
    """The coach that ``spec`` names (``"rubric"``, ``"off"`` or ``{"name": ...}``) for ``card``.

    Raises OptionError for a name that is not offered, CardError for a card whose rubric is malformed.
    """
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    backend = str(name).partition(":")[0]
    if backend in _PLANNED:
        raise OptionError(
            f"coach={name!r}: the {backend!r} backend is not installed in this version; use one of {COACHES}."
        )
    if name not in COACHES:
        raise OptionError(f"no coach {name!r}; there are {COACHES}." + nearest(str(name), COACHES))
    if options:
        raise OptionError(f"the coach {name!r} takes no options, found {sorted(options)}.")
    if name == "off":
        return OffCoach()
    if card.rubric is None:
        raise OptionError(f"coach='rubric': the card {card.id} has no rubric; use coach='off'.")
    from mappa_env.coach.rubric import RubricCoach

    return RubricCoach(card)
