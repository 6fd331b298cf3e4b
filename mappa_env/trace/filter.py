"""A filter for episodes and actions: ``agent=modeler_0 score<4 status=timeout``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.trace.recorded import ActionSummary, Summary
from mappa_env.types import role_of

_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+|"')
"""A condition, in which quotation marks hold spaces together. A lone mark is none."""
_TERM = re.compile(r"([a-z_]+)(!=|<=|>=|=|<|>|~)(.*)", re.DOTALL)
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OF_ACTIONS: Mapping[str, Callable[[ActionSummary], tuple[Any, ...]]] = {
    "agent": lambda action: (action.agent,),
    "role": lambda action: (role_of(action.agent),),
    "turn": lambda action: (action.turn,),
    "segment": lambda action: (action.segment,),
    "score": lambda action: (action.valid_score,),
    "reward": lambda action: (action.reward if action.valid else None,),
    "valid": lambda action: (action.valid,),
    "return": lambda action: (action.returned,),
    "advantage": lambda action: (action.advantage,),
    "status": lambda action: (action.verdict, action.tool),
    "verdict": lambda action: (action.verdict,),
    "tool": lambda action: (action.tool,),
}
"""Field of an action -> its values; a field with several matches if one of them does."""
OF_EPISODES: Mapping[str, Callable[[Summary], tuple[Any, ...]]] = {
    "env": lambda episode: (episode.env_id,),
    "task": lambda episode: (episode.task_id,),
    "topic": lambda episode: (episode.topic,),
    "family": lambda episode: (episode.family,),
    "seed": lambda episode: (episode.seed,),
    "success": lambda episode: (episode.success,),
    "outcome": lambda episode: (episode.score,),
    "ended": lambda episode: (episode.status,),
    "phase": lambda episode: (episode.about.get("phase"),),
    "step": lambda episode: (episode.about.get("step"),),
    "key": lambda episode: (episode.key,),
}
"""Field of an episode -> its values."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: ``field`` ``sign`` ``value``."""

    field: str
    sign: str
    value: str

    def holds(self, found: Sequence[Any]) -> bool:
        """Whether one of the values meets the condition; for ``!=`` all must."""
        if self.sign == "!=":
            return not any(self._same(value) for value in found)
        return any(self._meets(value) for value in found)

    def _meets(self, value: Any) -> bool:
        if self.sign == "=":
            return self._same(value)
        if self.sign == "~":
            return self.value.lower() in _text(value).lower()
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and _COMPARED[self.sign](value, _number(self.value))

    def _same(self, value: Any) -> bool:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _number(self.value) == value
        return self.value == _text(value)


class Filter:
    """All ``terms`` must hold. Terms of actions must hold for one and the same action.

    ``task~word`` looks for a word, ``score=none`` for a missing value, ``topic="two words"`` for a text with
    spaces. Raises OptionError for a term that is none, an unknown field, no value, or a comparison with
    something that is not a number.
    """

    def __init__(self, terms: Sequence[str] = ()) -> None:
        parsed = [_parsed(term) for text in terms for term in _split(text)]
        self._actions = [term for term in parsed if term.field in OF_ACTIONS]
        self._episodes = [term for term in parsed if term.field not in OF_ACTIONS]

    def actions(self, episode: Summary) -> tuple[int, ...]:
        """The steps of the actions that match; empty if the episode does not."""
        if not all(term.holds(OF_EPISODES[term.field](episode)) for term in self._episodes):
            return ()
        return tuple(
            action.step
            for action in episode.actions
            if all(term.holds(OF_ACTIONS[term.field](action)) for term in self._actions)
        )

    def __call__(self, episode: Summary) -> bool:
        """Whether the episode matches: it, and one of its actions if the filter is about actions."""
        if self._actions:
            return bool(self.actions(episode))
        return all(term.holds(OF_EPISODES[term.field](episode)) for term in self._episodes)


def _split(text: str) -> list[str]:
    """The conditions in ``text``: one, if a shell has taken its quotation marks away."""
    found = _TERM.fullmatch(text)
    if found is not None and '"' not in text and not any(map(_TERM.fullmatch, text.split()[1:])):
        return [text]
    return _WORD.findall(text)


def _parsed(text: str) -> Term:
    found = _TERM.fullmatch(text)
    fields = (*OF_ACTIONS, *OF_EPISODES)
    if found is None:
        raise OptionError(
            f"the filter {text!r} is not a condition: write <field><sign><value>, as in score<4 or "
            "agent=coder_0, with one of the signs = != < <= > >= ~; quotation marks hold spaces, as in "
            'topic="two words".'
        )
    field, sign, value = found[1], found[2], found[3].replace('"', "")
    if field not in fields:
        raise OptionError(
            f"the filter {text!r} has an unknown field; choose from {', '.join(fields)}."
            + nearest(field, fields)
        )
    if not value:
        raise OptionError(f"the filter {text!r} has no value; 'none' stands for a missing one.")
    if sign in _COMPARED and math.isnan(_number(value)):
        raise OptionError(f"the filter {text!r} compares with {value!r}, which is not a number.")
    return Term(field, sign, value)


def _number(text: str) -> float:
    """NaN for what is not a number. Whole numbers stay whole: a seed has more digits than a float."""
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return math.nan


def _text(value: Any) -> str:
    if value is None or value == "":
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
