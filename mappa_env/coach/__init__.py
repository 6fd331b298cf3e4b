"""Coaches by name: who scores every action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach.base import BaseCoach, Coach, OffCoach
from mappa_env.errors import OptionError, nearest

__all__ = ["COACHES", "BaseCoach", "Coach", "OffCoach", "make_coach"]

COACHES = ("rubric", "off")
MODELS = ("gemini", "openai", "replay")
"""Kinds of coaches that are followed by a name: ``gemini:<model>``."""
GROUP = "mappa.coaches"
"""Entry points of packages that bring coaches: name -> class."""
_METHODS: dict[str, tuple[int, tuple[str, ...]]] = {
    "judge": (1, ("fresh",)), "judge_many": (1, ()), "judge_later": (1, ()), "blame": (2, ()),
    "wait": (0, ()), "close": (0, ()),
}  # fmt: skip
_FIELDS = {"name": str, "deterministic": bool, "corrects": bool, "labels": bool}


def make_coach(spec: str | Mapping[str, Any], card: Card) -> Coach:
    """The coach that ``spec`` names (``"rubric"``, ``"off"``, ``"path/mine.py:Class"`` or ``{"name": ...}``)
    for ``card``.

    Raises OptionError for a name that is not offered, CardError for a card whose rubric is malformed.
    """
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = str(options.pop("name", ""))
    if name.partition(":")[0] in MODELS:
        from mappa_env.coach.llm.make import make_llm_coach

        return make_llm_coach(name, options, card)
    if name not in COACHES:
        return _own(name, options, card)
    known = {"corrector", "labels"} if name == "rubric" else set()
    if extra := set(options) - known:
        raise OptionError(
            f"the coach {name!r} takes {sorted(known) or 'no options'}, found {sorted(map(str, extra))}."
        )
    if name == "off":
        return OffCoach(card)
    if card.rubric is None:
        raise OptionError(f"coach='rubric': the card {card.id} has no rubric; use coach='off'.")
    from mappa_env.coach.rubric import RubricCoach

    return RubricCoach(card, **options)


def _own(name: str, options: Mapping[str, Any], card: Card) -> Coach:
    """A coach of the user's own, or of a package: ``Class(card, **options)``."""
    from mappa_env import plugins

    in_file = ".py:" in name
    kind = plugins.from_file("coach", name) if in_file else plugins.from_package("coach", GROUP, name)
    if kind is None:
        offered = (*COACHES, *MODELS, *plugins.installed(GROUP))
        raise OptionError(
            f"no coach {name!r}; there are {offered}, and 'path/mine.py:Class'." + nearest(name, offered)
        )
    made: Coach = plugins.construct("coach", name, kind, card, **options)
    lacking = plugins.missing(made, _METHODS)
    if getattr(kind, "judge", None) is BaseCoach.judge:
        lacking.append("judge")
    lacking += [name for name, of in _FIELDS.items() if not isinstance(getattr(made, name, None), of)]
    if lacking:
        raise OptionError(
            f"coach={name!r} is no coach: {', '.join(lacking)} missing, or not as it has to be. "
            "Derive it from mappa_env.coach.BaseCoach and write judge(self, evidence, *, fresh=False)."
        )
    return made
