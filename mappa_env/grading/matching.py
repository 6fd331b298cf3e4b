"""Compares an answer with a gold, both as trees. Expressions are left to an algebra system."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from mappa_env.grading.answers import (
    Answer,
    Choice,
    Expression,
    Infinity,
    Sequence,
    Words,
    leaves,
    read_answer,
)
from mappa_env.grading.numbers import Number, same_number

Pair = tuple[str, str]
"""(gold, answer), as cleaned texts."""
Equal = Callable[[Pair], bool]

MOST_PAIRS = 64


def questions(gold: Answer, answer: Answer) -> list[Pair]:
    """The pairs of expressions on whose equality the match depends, each once; empty if it is decided."""
    if isinstance(gold, Choice):
        gold = gold.value
    if isinstance(answer, Choice):
        answer = answer.value
    if isinstance(gold, Expression):
        return [_pair(gold, answer)] if _may_equal(answer) else []
    if not isinstance(gold, Sequence):
        return []
    golds = dict.fromkeys(leaf for leaf in leaves(gold) if isinstance(leaf, Expression))
    answers = dict.fromkeys(leaf for leaf in leaves(answer) if isinstance(leaf, (Expression, Number)))
    pairs = [_pair(g, a) for g, a in product(golds, answers) if g != a]
    return pairs if len(pairs) <= MOST_PAIRS else []


def matches(gold: Answer, answer: Answer, equal: Equal) -> bool:
    """Whether ``answer`` is right; ``equal`` says whether the expressions of a pair are equal."""
    if gold == answer:
        return True
    if isinstance(gold, Choice):
        if isinstance(answer, Choice):
            return gold.letter == answer.letter and matches(gold.value, answer.value, equal)
        return answer == gold.letter or matches(gold.value, answer, equal)
    if isinstance(answer, Choice):
        return gold == answer.letter or matches(gold, answer.value, equal)
    if isinstance(gold, Number):
        found = _result(answer) if isinstance(answer, Expression) else answer
        return isinstance(found, Number) and same_number(gold, found)
    if isinstance(gold, Words):
        return isinstance(answer, Words) and len(gold.text) > 1 and _folded(gold.text) == _folded(answer.text)
    if isinstance(gold, Sequence):
        return isinstance(answer, Sequence) and _all_match(gold, answer, equal)
    return isinstance(gold, Expression) and _may_equal(answer) and equal(_pair(gold, answer))


def text_of(answer: Answer) -> str:
    """An answer as cleaned text."""
    if isinstance(answer, (Expression, Words)):
        return answer.text
    if isinstance(answer, Number):
        fraction = answer.value
        return (
            f"{fraction.numerator}"
            if fraction.denominator == 1
            else _fraction(fraction.numerator, fraction.denominator)
        )
    if isinstance(answer, Infinity):
        return "∞" if answer.sign > 0 else "-∞"
    if isinstance(answer, Choice):
        return text_of(answer.value)
    inner = ", ".join(text_of(item) for item in answer.items)
    if answer.kind == "set":
        return rf"\{{{inner}\}}"
    if answer.kind == "union":
        return "∪".join(text_of(item) for item in answer.items)
    return f"{answer.kind[0]}{inner}{answer.kind[1]}" if answer.kind[0] in "([" else inner


def _fraction(top: int, bottom: int) -> str:
    return rf"{'-' if top < 0 else ''}\frac{{{abs(top)}}}{{{bottom}}}"


def _pair(gold: Expression, answer: Answer) -> Pair:
    """An equation is compared with an equation, anything else with a right side."""
    whole = isinstance(answer, Expression) and answer.equation and ("=" in gold.text or gold.equation)
    if whole and isinstance(answer, Expression):
        return gold.equation or gold.text, answer.equation
    return gold.text, text_of(answer)


def _may_equal(answer: Answer) -> bool:
    """Whether algebra may compare an expression with the answer. It takes words for products of letters."""
    return not isinstance(answer, Words) or len(answer.text) == 1


def _result(answer: Expression) -> Answer | None:
    """The right side of ``m + n = 23``, whose left side has a symbol; None for anything else."""
    left, equals, right = answer.text.rpartition("=")
    return read_answer(right) if equals and left.upper() != left.lower() else None


def _folded(text: str) -> str:
    return text.casefold()


def _all_match(gold: Sequence, answer: Sequence, equal: Equal) -> bool:
    if len(gold.items) != len(answer.items):
        return False
    kinds = (gold.kind, answer.kind)
    if kinds == ("named", "named"):
        values = dict(zip(answer.names, answer.items, strict=True))
        return set(gold.names) == set(values) and all(
            matches(item, values[name], equal) for name, item in zip(gold.names, gold.items, strict=True)
        )
    ordered = kinds[0] in ("()", "[]", "(]", "[)") or "named" in kinds
    if kinds[0] != kinds[1] and not (
        set(kinds) <= {"list", "set"} or ("named" in kinds and set(kinds) <= {"named", "list", "()"})
    ):
        return False
    if ordered:
        return all(matches(g, a, equal) for g, a in zip(gold.items, answer.items, strict=True))
    return _one_to_one([[n for n, a in enumerate(answer.items) if matches(g, a, equal)] for g in gold.items])


def _one_to_one(edges: Iterable[list[int]]) -> bool:
    """Whether each row can have a column of its own, by augmenting paths."""
    rows = list(edges)
    taken: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column in rows[row]:
            if column not in seen:
                seen.add(column)
                if column not in taken or place(taken[column], seen):
                    taken[column] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(rows)))
