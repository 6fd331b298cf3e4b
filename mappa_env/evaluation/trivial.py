"""Baselines without a model: whoever does not beat them has learned nothing about the tasks."""

from __future__ import annotations

import re
from collections.abc import Callable

from mappa_env.cards import Card
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError, nearest
from mappa_env.evaluation.participant import Act, Said

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Constant:
    """Every action is ``text``; an empty one says nothing."""

    def __init__(self, text: str) -> None:
        self._said = Said(text, "constant")

    def check(self, card: Card, agent: str) -> None:
        """Anybody can say it."""

    def sit(self, episode: Episode) -> Act:
        """See ``Participant.sit``."""
        return lambda _: self._said

    def close(self) -> None:
        """It holds nothing."""


class Trivial:
    """Answers from the task's text by a rule: see ``RULES``. Raises OptionError for an unknown one."""

    def __init__(self, rule: str) -> None:
        if rule not in RULES:
            raise OptionError(
                f"trivial:{rule} is unknown; the rules are {', '.join(RULES)}." + nearest(rule, RULES)
            )
        self._version, self._rule = f"trivial:{rule}", RULES[rule]

    def check(self, card: Card, agent: str) -> None:
        """Any task has a text."""

    def sit(self, episode: Episode) -> Act:
        """See ``Participant.sit``."""
        said = Said(self._rule(episode.task.prompt), self._version)
        return lambda _: said

    def close(self) -> None:
        """It holds nothing."""


def _boxed(pick: Callable[[list[str]], str]) -> Callable[[str], str]:
    """An answer in the form that the mathematical cards ask for; "0" where the text has no number."""

    def answer(prompt: str) -> str:
        return f"The answer is \\boxed{{{pick(_NUMBER.findall(prompt) or ['0'])}}}."

    return answer


RULES: dict[str, Callable[[str], str]] = {
    "first-number": _boxed(lambda numbers: numbers[0]),
    "last-number": _boxed(lambda numbers: numbers[-1]),
    "largest-number": _boxed(lambda numbers: max(numbers, key=float)),
    "repeat": lambda prompt: prompt,
}
"""Name -> the action for a task's text."""
