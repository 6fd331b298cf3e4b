"""Compares an answer with a gold, both as trees. Expressions are left to an algebra system."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import product

from mappa_env.grading.answers import relates, result
from mappa_env.grading.numbers import Number, same_number
from mappa_env.grading.tree import Answer, Choice, Expression, Infinity, Sequence, Words, leaves
from mappa_env.grading.units import said

Pair = tuple[str, str]
"""(gold, answer), as cleaned texts."""
Equal = Callable[[Pair], bool]

MOST_PAIRS = 64

_STATEMENT = re.compile(
    r"\\(?:not|neg|lnot|equiv|sim|simeq|cong|propto|n[a-z]*(?:eq|less|gtr|in|sim|cong)|doteq|asymp)(?![A-Za-z])"
)
_TEXT = re.compile(r"⟦([^⟦⟧]*)⟧")
_POWER = re.compile(r"\^\s*\{?-?[0-9]\}?|(?<=[a-z])[23](?![0-9])")
_RECKONS = re.compile(r"[0-9+=<>]|-\s|\b(?:plus|minus|times|percent|divided)\b")


def questions(gold: Answer, answer: Answer) -> list[Pair]:
    """The pairs of expressions on whose equality the match depends, each once; empty if it is decided."""
    if isinstance(gold, Choice):
        gold = gold.value
    if isinstance(answer, Choice):
        answer = answer.value
    if isinstance(gold, Expression):
        return [_pair(gold, answer)] if _may_equal(gold, answer) else []
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
        found = result(answer.text) if isinstance(answer, Expression) else answer
        return isinstance(found, Number) and same_number(gold, found)
    if isinstance(gold, Words):
        return isinstance(answer, Words) and len(gold.text) > 1 and _folded(gold.text) == _folded(answer.text)
    if isinstance(gold, Sequence):
        return isinstance(answer, Sequence) and _all_match(gold, answer, equal)
    return isinstance(gold, Expression) and _may_equal(gold, answer) and equal(_pair(gold, answer))


def vote_of(answer: Answer) -> str:
    """One text for all spellings of an answer whose leaves are numbers or words.

    Units are no part of it: ``12 cm`` and ``12`` are both right for 12. A fraction that is not in lowest
    terms and a percentage have votes of their own, as the grade may differ. Expressions differ by text.
    """
    if isinstance(answer, Number):
        if answer.reducible is not None:
            return "/".join(map(str, answer.reducible)) + "%" * answer.percent
        return f"{answer.value}{'%' * answer.percent}"
    if isinstance(answer, Words):
        return answer.text.casefold() if len(answer.text) > 1 else answer.text
    if isinstance(answer, Choice):
        return f"({answer.letter.text}) {vote_of(answer.value)}"
    if not isinstance(answer, Sequence):
        return text_of(answer)
    items = [vote_of(item) for item in answer.items]
    if answer.names:
        items = [f"{name}={item}" for name, item in zip(answer.names, items, strict=True)]
    if answer.kind in ("list", "set", "named", "union"):
        items = sorted(items)
    inner = ("∪" if answer.kind == "union" else ", ").join(items)
    return f"{answer.kind[0]}{inner}{answer.kind[1]}" if answer.kind[0] in "([" else inner


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
    if isinstance(answer, Expression):
        if answer.equation and ("=" in gold.text or gold.equation):
            return gold.equation or gold.text, answer.equation
        if relates(answer.text) and not relates(gold.text):
            found = result(answer.text)
            return (gold.equation, answer.text) if found is None else (gold.text, text_of(found))
    return gold.text, text_of(answer)


def _may_equal(gold: Expression, answer: Answer) -> bool:
    """Whether algebra may compare a gold with the answer. It takes words for products, and overlooks text.

    Of an equation it takes the right side, so one that is not solved is no answer to a value.
    """
    if not isinstance(answer, Expression):
        return not isinstance(answer, Words) or len(answer.text) == 1
    (asked, times), (found, own) = said(gold.text), said(answer.text)
    if not (found <= asked and times == own) or _signs(gold) != _signs(answer):
        return False
    if not _reckoned(answer.text) <= _reckoned(gold.text):
        return False
    solved = answer.equation or gold.equation or relates(gold.text) or not relates(answer.text)
    return bool(solved) or result(answer.text) is not None


def _signs(answer: Expression) -> set[str]:
    """The commands that deny or relate."""
    return set(_STATEMENT.findall(answer.text))


def _reckoned(text: str) -> set[str]:
    """The texts with numbers or operators, which change a value that algebra reads without them.

    A power of a unit is none.
    """
    return {found for found in _TEXT.findall(text) if _RECKONS.search(_POWER.sub("", found))}


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
