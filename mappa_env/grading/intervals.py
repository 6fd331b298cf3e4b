r"""Sets of real numbers as intervals: unions in one spelling, differences, ``|x|<1`` and ``x\ne2``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from mappa_env.grading.numbers import Number, read_number
from mappa_env.grading.tree import Answer, Expression, Infinity, Kind, Sequence

_MODULUS = re.compile(r"\| ?([a-vxy]) ?(?:([+-]) ?([^|]{1,20}?) ?)?\|")
"""Not of z and w, which are complex."""
_REVERSED = re.compile(r"([\[\]])([^\[\]∪,;]*[,;][^\[\]∪,;]*)([\[\]])")


_REALS = Sequence("()", (Infinity(-1), Infinity(1)))


class _Piece(NamedTuple):
    """The numbers between two ends; ``after``: without the lower one, ``through``: with the upper one."""

    low: Fraction | float
    after: bool
    high: Fraction | float
    through: bool


def facing(text: str) -> str:
    """A text whose first bracket closes, or whose last one opens, with ``(a,b)`` for ``]a,b[``."""
    if not (text.startswith("]") or text.endswith("[")):
        return text
    return _REVERSED.sub(
        lambda found: f"{'[' if found[1] == '[' else '('}{found[2]}{']' if found[3] == ']' else ')'}", text
    )


def merged(union: Sequence) -> Sequence:
    """A union of intervals between numbers in one spelling: ``(1,2]∪[2,3)`` is ``(1,3)``; else as it is."""
    names = {item.names for item in union.items if isinstance(item, Sequence)}
    pieces = _pieces(union)
    if pieces is None or len(names) > 1:
        return union
    return _sequence(pieces, *names)


def without(whole: Answer, taken: Answer) -> Sequence | None:
    """The numbers of some intervals that are not among others; None if these are not all written numbers."""
    pieces, holes = _pieces(whole), _pieces(taken)
    if pieces is None or holes is None or not isinstance(whole, Sequence):
        return None
    for hole in holes:
        pieces = [part for piece in pieces for part in _cut(piece, hole)]
    return _sequence(pieces, _names(whole)) if pieces else None


def _names(answer: Sequence) -> tuple[str, ...]:
    """The variable of an interval, or of the first of several."""
    first = answer.items[0]
    return _names(first) if answer.kind == "union" and isinstance(first, Sequence) else answer.names


def within(text: str, mark: str, bound: Answer | None) -> Sequence | None:
    """The interval of ``|x - 1| < 2``, or the two of ``|x| > 2``; None if it is anything else."""
    found = _MODULUS.fullmatch(text)
    if found and not found[3] and mark in "<≤" and isinstance(bound, Expression) and not bound.unit:
        kind: Kind = "[]" if mark == "≤" else "()"
        return Sequence(kind, (Expression(f"-({bound.text})"), bound), (found[1],))
    if not found or not isinstance(bound, Number) or bound.unit or bound.percent or bound.value <= 0:
        return None
    shift = read_number(found[3]) if found[3] else Number(Fraction(0))
    if shift is None or shift.unit or shift.percent:
        return None
    middle = -shift.value if found[2] == "+" else shift.value
    low, high = middle - bound.value, middle + bound.value
    closed = mark in "≤≥"
    if mark in "<≤":
        return _sequence([_Piece(low, not closed, high, closed)], (found[1],))
    far = float("inf")
    return _sequence([_Piece(-far, True, low, closed), _Piece(high, not closed, far, False)], (found[1],))


def around(value: Answer, names: tuple[str, ...] = ()) -> Sequence:
    """All real numbers but one, which the variable of ``names`` is not equal to."""
    below = Sequence("()", (Infinity(-1), value), names)
    return Sequence("union", (below, Sequence("()", (value, Infinity(1)), names)))


def both(conditions: Iterable[Answer]) -> Sequence | None:
    """The numbers for which all of some conditions on one variable hold; None if they are anything else.

    In ``x \\ne 2, 3`` a number stands for another one that the variable is not equal to.
    """
    first, *others = conditions
    found = first if isinstance(first, Sequence) and _pieces(first) is not None else None
    for each in others:
        if found is None or (isinstance(each, Sequence) and _names(each) != _names(found)):
            return None
        taken = each if isinstance(each, Number) else without(_REALS, each)
        found = None if taken is None else without(found, taken)
    return found


def _pieces(answer: Answer) -> list[_Piece] | None:
    if isinstance(answer, Number):
        exact = not answer.unit and not answer.percent
        return [_Piece(answer.value, False, answer.value, True)] if exact else None
    if not isinstance(answer, Sequence):
        return None
    if answer.kind in ("set", "list", "union"):
        parts = [_pieces(item) for item in answer.items]
        found = [part for part in parts if part is not None]
        return [piece for part in found for piece in part] if len(found) == len(parts) else None
    if answer.kind[0] not in "([" or len(answer.items) != 2:
        return None
    low, high = map(_end, answer.items)
    if low is None or high is None or low >= high:
        return None
    return [_Piece(low, answer.kind[0] == "(", high, answer.kind[1] == "]")]


def _end(answer: Answer) -> Fraction | float | None:
    if isinstance(answer, Infinity):
        return answer.sign * float("inf")
    return answer.value if isinstance(answer, Number) and not answer.unit and not answer.percent else None


def _cut(piece: _Piece, hole: _Piece) -> Iterable[_Piece]:
    below = min((piece.high, piece.through), (hole.low, hole.after))
    above = max((piece.low, piece.after), (hole.high, hole.through))
    for part in (_Piece(piece.low, piece.after, *below), _Piece(*above, piece.high, piece.through)):
        if (part.low, part.after) < (part.high, part.through):
            yield part


def _sequence(pieces: Iterable[_Piece], names: tuple[str, ...] = ()) -> Sequence:
    joined: list[_Piece] = []
    for piece in sorted(pieces):
        if joined and (piece.low, piece.after) <= (joined[-1].high, joined[-1].through):
            last = joined.pop()
            high, through = max((last.high, last.through), (piece.high, piece.through))
            joined.append(_Piece(last.low, last.after, high, through))
        else:
            joined.append(piece)
    if all(piece.low == piece.high for piece in joined):
        return Sequence("set", tuple(_answer(piece.low) for piece in joined))
    items = tuple(_interval(piece, names) for piece in joined)
    return items[0] if len(items) == 1 else Sequence("union", items)


def _interval(piece: _Piece, names: tuple[str, ...]) -> Sequence:
    if piece.low == piece.high:
        return Sequence("set", (_answer(piece.low),))
    kind: Kind = f"{'[('[piece.after]}{')]'[piece.through]}"  # type: ignore[assignment]
    return Sequence(kind, (_answer(piece.low), _answer(piece.high)), names)


def _answer(end: Fraction | float) -> Number | Infinity:
    if isinstance(end, float):
        return Infinity(1 if end > 0 else -1)
    return Number(end)
