"""Compares an answer with a gold, both as trees. Expressions are left to an algebra system."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import TypeGuard

from mappa_env.grading.answers import result, wanted
from mappa_env.grading.assignments import are_numbered, order_of
from mappa_env.grading.equations import is_constant, relates, sides, steps
from mappa_env.grading.expression_units import is_radian
from mappa_env.grading.latex import CLOSE, OPEN, without_angles, without_primes, without_spaces
from mappa_env.grading.naming import derivatives, derived, is_function, same_name
from mappa_env.grading.numbers import Number, same_number
from mappa_env.grading.tree import Answer, Choice, Expression, Infinity, Sequence, Words, leaves
from mappa_env.grading.unit_names import same_unit

Pair = tuple[str, str]
"""(gold, answer), as cleaned texts."""
Equal = Callable[[Pair], bool]

MOST_PAIRS = 64

_OVERLOOKED = re.compile(
    r"\\(?:not|neg|lnot|equiv|sim|simeq|cong|propto|n[a-z]*(?:eq|less|gtr|in|sim|cong)|doteq|asymp|mod|ldots|"
    r"[hv]?phantom)(?![A-Za-z])|['\"°]"
)
"""Commands and marks that deny, relate or change what algebra reads without them."""

_EXPECTED = re.compile(r"(?:[EP]|\{[EP]\}) ?\[[^\[\]]{0,40}\](?: ?\^ ?(?:\{[^{}]{0,9}\}|.))?")
"""An expected value, or a probability, with its power: its brackets part no factors."""

_INVERSE = re.compile(r"(?<![A-Za-z\\])[fg] ?\^ ?\{ ?-1 ?\} ?\(")
"""An inverse function, which algebra takes for one divided by it."""

_WORDS = re.compile(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}")


def questions(gold: Answer, answer: Answer) -> list[Pair]:
    """The pairs of expressions on whose equality the match depends, each once; empty if it is decided."""
    if isinstance(gold, Choice):
        gold = gold.value
    if isinstance(answer, Choice):
        answer = answer.value
    gold, answer = _alike(gold, answer), _as_fraction(_alike(answer, gold), gold)
    if _is_equation(gold) and not _states(answer):
        value = wanted(gold.text)
        if value is not None or _is_whole(gold):
            return [] if value is None else questions(value, answer)
    if isinstance(gold, Expression):
        return [_pair(gold, answer)] if _may_equal(gold, answer) else []
    if (ratio := _ratio(gold)) is not None and not isinstance(answer, Sequence):
        return questions(ratio, answer)
    if not isinstance(gold, Sequence):
        return []
    golds = dict.fromkeys(leaf for leaf in leaves(gold) if isinstance(leaf, Expression))
    answers = dict.fromkeys(leaf for leaf in leaves(answer) if isinstance(leaf, (Expression, Number)))
    pairs = [_pair(g, a) for g, a in product(golds, answers) if g != a]
    return pairs if len(pairs) <= MOST_PAIRS else []


def matches(gold: Answer, answer: Answer, equal: Equal) -> bool:
    """Whether ``answer`` is right; ``equal`` says whether the expressions of a pair are equal."""
    gold, answer = _alike(gold, answer), _as_fraction(_alike(answer, gold), gold)
    if gold == answer:
        return True
    if isinstance(gold, Choice):
        if isinstance(answer, Choice):
            return gold.letter == answer.letter and matches(gold.value, answer.value, equal)
        return answer == gold.letter or matches(gold.value, answer, equal)
    if isinstance(answer, Choice):
        return gold == answer.letter or matches(gold, answer.value, equal)
    if _is_equation(gold) and not _states(answer):
        value = wanted(gold.text)
        if value is not None or _is_whole(gold):
            return value is not None and matches(value, answer, equal)
    if isinstance(gold, Number):
        if isinstance(answer, Expression) and same_unit(gold.unit, answer.unit):
            answer = result(answer.equation or answer.text) or answer
        return isinstance(answer, Number) and same_number(gold, answer)
    if isinstance(gold, Words):
        if _is_equation(answer):
            answer = result(answer.text) or answer
        return isinstance(answer, Words) and len(gold.text) > 1 and _folded(gold.text) == _folded(answer.text)
    if (ratio := _ratio(gold)) is not None and not isinstance(answer, Sequence):
        return matches(ratio, answer, equal)
    if isinstance(gold, Sequence):
        return isinstance(answer, Sequence) and _all_match(gold, answer, equal)
    if not isinstance(gold, Expression) or not _may_equal(gold, answer):
        return False
    pair = _pair(gold, answer)
    return without_spaces(pair[0]) == without_spaces(pair[1]) or equal(pair)


def _is_equation(answer: Answer) -> TypeGuard[Expression]:
    """Whether it is an equation that has no value, such as ``x+y=5``, or whose value is not read yet."""
    return isinstance(answer, Expression) and not answer.equation and steps(answer.text) is not None


def _is_whole(gold: Expression) -> bool:
    """Whether only the whole equation is right: not so a chain, or a function of a name on the left."""
    parts = sides(gold.text)
    return len(parts) == 2 and not (is_function(parts[0]) and parts[1] != "0")


def _states(answer: Answer) -> bool:
    return isinstance(answer, Expression) and (bool(answer.equation) or relates(answer.text))


def text_of(answer: Answer) -> str:
    """An answer as cleaned text."""
    if isinstance(answer, (Expression, Words)):
        return answer.text
    if isinstance(answer, Number):
        top, bottom = answer.value.numerator, answer.value.denominator
        return (f"{top}" if bottom == 1 else _fraction(top, bottom)) + "%" * answer.percent
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
        if gold.equation and answer.equation:
            return gold.text, answer.text
        if answer.equation and relates(gold.text):
            return gold.text, answer.equation
        if relates(answer.text) and not relates(gold.text):
            found = result(answer.text)
            words = _WORDS.fullmatch(sides(answer.text)[0])  # Area = ...
            if found is None or (gold.equation and not words and not is_constant(gold)):
                return gold.equation, answer.text
            return gold.text, text_of(found)
    return gold.text, text_of(answer)


def _may_equal(gold: Expression, answer: Answer) -> bool:
    """Whether algebra may compare a gold with the answer.

    Of an equation it takes the right side, so one that is not solved is no answer to a value.
    """
    if isinstance(answer, Words):
        return len(answer.text) == 1 and not _overlooked(gold)
    if not _same_units(gold, answer) or _overlooked(gold) != _overlooked(answer):
        return False
    if not isinstance(answer, Expression):
        return True
    if gold.equation and answer.equation:
        return is_constant(gold) or same_name(_left(gold), _left(answer))
    if answer.equation and derived(_left(answer)) and not is_constant(gold) and not relates(gold.text):
        return False
    solved = answer.equation or gold.equation or relates(gold.text) or not relates(answer.text)
    return bool(solved) or result(answer.text) is not None


def _left(answer: Expression) -> str:
    return sides(answer.equation)[0]


def _same_units(gold: Expression, answer: Answer) -> bool:
    """As for numbers; and what is a multiple of pi is in radians."""
    unit = answer.unit if isinstance(answer, (Expression, Number)) else ""
    if not same_unit(gold.unit, unit):
        return False
    radians = is_radian(gold.text) or is_radian(text_of(answer))
    return not radians or (gold.unit == "°") == (unit == "°")


def _overlooked(answer: Answer) -> set[str | tuple[str, ...]]:
    if not isinstance(answer, Expression):
        return set()
    found = _EXPECTED.findall(answer.text) + _INVERSE.findall(answer.text)
    calls = {re.sub("[{} ]", "", call) for call in found}
    marks = set(_OVERLOOKED.findall(without_angles(without_primes(answer.text))))
    return marks | calls | derivatives(answer.text)


def _ratio(gold: Answer) -> Answer | None:
    """The fraction that a ratio of two is, in lowest terms; others, such as ``3:15``, may be times."""
    if not isinstance(gold, Sequence) or gold.kind != "phrase" or gold.items[1:2] != (Words(":"),):
        return None
    if len(gold.items) != 3:
        return None
    top, _, bottom = gold.items
    if isinstance(top, Number) and isinstance(bottom, Number):
        if top.whole is None or not bottom.whole or math.gcd(top.whole, bottom.whole) != 1:
            return None
        return Number(top.value / bottom.value)
    return Expression(rf"\frac{{{text_of(top)}}}{{{text_of(bottom)}}}")


def _folded(text: str) -> str:
    return text.casefold()


def _all_match(gold: Sequence, answer: Sequence, equal: Equal) -> bool:
    kinds = (gold.kind, answer.kind)
    golds, answers = gold.items, answer.items
    if kinds == ("set", "set"):  # which has each element once
        golds, answers = tuple(dict.fromkeys(golds)), tuple(dict.fromkeys(answers))
    if len(golds) != len(answers):
        return False
    if "named" in kinds:
        return _named_match(gold, answer, equal)
    if kinds[0] != kinds[1] and not (
        set(kinds) <= {"list", "set"} or kinds == ("phrase", "list")  # 5 feet and 4 inches
    ):
        return False
    if gold.names and answer.names and gold.names != answer.names:
        return False  # x > 1 and z > 1
    if gold.kind in ("()", "[]", "(]", "[)", "phrase"):
        return all(matches(g, a, equal) for g, a in zip(golds, answers, strict=True))
    return _one_to_one([[n for n, a in enumerate(answers) if matches(g, a, equal)] for g in golds])


def _named_match(gold: Sequence, answer: Sequence, equal: Equal) -> bool:
    """Assignments by name; with a point or a list in the order in which its values are meant.

    ``7, -2`` may be the values of x and y: ``y = -2, x = 7`` is right for it, and ``x = -2, y = 7`` is not.
    It may also be two roots, whose numbers are no order: ``x_1 = -2, x_2 = 7`` is right, too.
    """
    if gold.kind == answer.kind:
        values = dict(zip(answer.names, answer.items, strict=True))
        return set(gold.names) == set(values) and all(
            matches(item, values[name], equal) for name, item in zip(gold.names, gold.items, strict=True)
        )
    named, other = (gold, answer) if gold.kind == "named" else (answer, gold)
    if other.kind == "list" and are_numbered(named.names):
        return _all_match(_as_list(gold), _as_list(answer), equal)
    return other.kind in ("list", "()") and all(
        matches(g, a, equal) for g, a in zip(in_order(gold), in_order(answer), strict=True)
    )


def _alike(answer: Answer, other: Answer) -> Answer:
    """``x = y = 2`` as the value 2 or as one of each name, whichever the other can be; degrees as radians."""
    if (
        _is_degrees(answer)
        and isinstance(other, Expression)
        and other.unit in ("", "rad")
        and is_radian(other.text)
    ):
        return Expression(rf"{text_of(Number(answer.value / 180))}\pi") if is_constant(other) else answer
    if not isinstance(answer, Sequence) or answer.kind != "same":
        return answer
    return of_each(answer) if isinstance(other, Sequence) else answer.items[0]


def _is_degrees(answer: Answer) -> TypeGuard[Number]:
    return isinstance(answer, Number) and answer.unit == "°" and not answer.percent


def _as_fraction(answer: Answer, gold: Answer) -> Answer:
    """A ratio as a fraction, if the gold is one."""
    if isinstance(gold, Number):
        fraction = gold.value.denominator > 1 and not gold.unit and not gold.percent
    else:
        fraction = isinstance(gold, Expression) and gold.text.startswith((r"\frac", r"-\frac"))
    return (_ratio(answer) or answer) if fraction else answer


def of_each(answer: Sequence) -> Sequence:
    """``x = y = 2`` as ``x = 2, y = 2``."""
    return Sequence("named", answer.items * len(answer.names), answer.names)


def _as_list(answer: Sequence) -> Sequence:
    return replace(answer, kind="list", names=())


def in_order(answer: Sequence) -> list[Answer]:
    """The parts of an answer; assignments in the order in which their values are meant."""
    places = order_of(answer.names) if answer.kind == "named" else range(len(answer.items))
    return [answer.items[n] for n in places]


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
