"""What an answer may be: a number, words, an expression that needs algebra, or several of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mappa_env.grading.numbers import Number

Kind = Literal["list", "named", "same", "set", "()", "[]", "(]", "[)", "union", "phrase"]


@dataclass(frozen=True, slots=True)
class Words:
    """A text, the letter of a choice, or digits with a base; in any case if it has more than one letter."""

    text: str


@dataclass(frozen=True, slots=True)
class Infinity:
    """``sign`` is 1 or -1."""

    sign: int


@dataclass(frozen=True, slots=True)
class Expression:
    """Anything else, as cleaned text: a root, a polynomial, an equation, a matrix.

    ``equation``: the whole ``y = 2x`` of which ``text`` is the right side. ``unit``: its unit, which is no
    part of the text.
    """

    text: str
    equation: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Several answers. ``list``, ``set`` and ``union`` have no order.

    ``named``: assignments, whose ``names`` are as long as ``items``. ``same``: one item, the value of each of
    several ``names``. A pair of brackets: a point or an
    interval, whose only name is that of its variable. ``phrase``: values with words or colons between them.
    """

    kind: Kind
    items: tuple[Answer, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The letter of a choice together with its value: ``(C) 12``."""

    letter: Words
    value: Answer


Answer = Number | Words | Infinity | Expression | Sequence | Choice


def leaves(answer: Answer) -> Iterator[Number | Words | Infinity | Expression]:
    """The parts of an answer that have no parts."""
    if isinstance(answer, Sequence):
        for item in answer.items:
            yield from leaves(item)
    elif isinstance(answer, Choice):
        yield from leaves(answer.value)
    else:
        yield answer
