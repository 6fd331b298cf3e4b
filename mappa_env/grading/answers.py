"""Reads answers as trees: numbers, words, lists, points, intervals, and expressions that need algebra."""

from __future__ import annotations

import re
from dataclasses import replace

from mappa_env.grading.assignments import assignments, name_of, names_of_chain, names_of_tuple
from mappa_env.grading.based import read_based
from mappa_env.grading.brackets import GROUPED, cut, spans, split
from mappa_env.grading.congruences import congruence
from mappa_env.grading.equations import agree, computes, is_constant, is_definite, relates, sides, steps
from mappa_env.grading.expression_units import without_unit
from mappa_env.grading.intervals import around, both, facing, merged, within, without
from mappa_env.grading.labels import labelled, names_a_choice
from mappa_env.grading.latex import balanced, clean
from mappa_env.grading.naming import (
    defines,
    has_unknowns,
    is_asked_for,
    is_derivative,
    is_name,
    is_variable,
)
from mappa_env.grading.numbers import Number, read_number
from mappa_env.grading.phrases import Part, parts_of_phrase
from mappa_env.grading.polar import polar
from mappa_env.grading.prose import measured, parted
from mappa_env.grading.sets import REALS, common, condition, exceptions, fulfils, named_set, unnamed
from mappa_env.grading.tree import Answer, Choice, Expression, Infinity, Kind, Sequence, Words
from mappa_env.grading.unit_names import MONEY, joined
from mappa_env.grading.wording import plain
from mappa_env.grading.words import is_marked, read_words

LONGEST = 2000
"""Characters of the longest text that is read."""
MOST_ITEMS = 64
MAX_DEPTH = 8

_MINUTES = re.compile("0[0-9]")
_RELATION = re.compile(r"[<>≤≥]")
_OR = re.compile(r"(?<![A-Za-z])or(?![A-Za-z])|∨")
_MONEY = "".join(MONEY)
_FLIP = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
_ENDS = {"(": ")", "[": "]"}


def read_answer(text: str) -> Answer | None:
    """The answer that a text gives; None if it is blank, too long or its braces do not match."""
    if len(text) > LONGEST:
        return None
    text = facing(plain(clean(text)))
    if not balanced(text):
        return None
    return _read(text, 0)


def result(text: str) -> Answer | None:
    """The right side of ``m + n = 23``, whose left side defines what is asked for, and of ``5 + 7 = 12``.

    None for anything else.
    """
    parts = steps(text)
    if parts is None or len(parts) < 2:
        return None
    found = _read(parts[-1], 1)
    if found is None or not agree(parts[:-1], found):
        return None
    if not any(c.isalpha() for part in parts[:-1] for c in part):
        return found if all(computes(part, found) for part in parts[:-1]) else None
    return found if defines(parts[0]) or read_number(parts[0]) is not None else None


def wanted(text: str) -> Answer | None:
    """The ``result`` of an equation whose left side is what is asked for: of ``m+n=5``, not of ``x+y=5``.

    A sum that is 0 is an equation.
    """
    found = result(text)
    if found is None:
        return None
    left = sides(text)[0]
    if isinstance(found, Number) and not found.value and any(split(left, sign)[1:] for sign in "+-"):
        return None
    computed = not any(c.isalpha() for c in left)
    return found if computed or is_asked_for(left, constant=is_definite(found)) else None


def _read(text: str, depth: int) -> Answer | None:
    text = _bare(text)
    if not text:
        return None
    if depth > MAX_DEPTH:
        return Expression(text)
    if label := labelled(text):
        value = _read(label[1], depth + 1)
        if value is None or not names_a_choice(value):
            return None if value is None else Choice(Words(label[0]), value)
    number = read_number(text[1:-1].strip() if is_marked(text) else text)
    found = (
        number
        or polar(text)
        or read_based(text)
        or named_set(text)
        or congruence(text)
        or _excepted(text, depth)
        or _spoken(text, depth)
        or read_words(text)
    )
    if found is not None:
        return found
    if is_marked(text):
        return _read(text[1:-1], depth + 1)
    bare = text.strip(_MONEY)
    if bare != text and not split(text, ",")[1:] and read_number(bare) is None:
        return _priced(_read(bare, depth + 1), next(MONEY[c] for c in text if c in MONEY))
    if said := assignments(text):
        return _named([name for name, _ in said], [value for _, value in said], depth) or Expression(text)
    for separator in ("∨", "∧", "∪", ";", "or", ","):
        parts = split(text, separator)
        if len(parts) > 1 and _parts(parts, separator):
            return _sequence(text, parts, "union" if separator == "∪" else "list", depth)
    return (
        _difference(text, depth)
        or _relation(text, depth)
        or _bracketed(text, depth)
        or _plus_minus(text, depth)
        or _phrase(text, depth)
        or _leaf(text)
    )


def _parts(parts: list[str], separator: str) -> bool:
    """Whether a separator parts answers.

    Not so ``∨`` between letters, ``∧`` between conditions of one unknown, and ``∪`` before an equals sign.
    """
    if separator == "∨":
        return all(map(relates, parts))
    if separator == "∧":
        return len(set(filter(None, map(name_of, parts)))) == len(parts)
    return separator != "∪" or "=" not in "".join(parts[1:])


def _spoken(text: str, depth: int) -> Answer | None:
    """The values of a text of numbers and words, or of feet and inches; None if it is anything else."""
    said = measured(text) or parted(text)
    found = _read(said, depth + 1) if said else None
    return found if isinstance(found, (Number, Sequence)) else None


def _excepted(text: str, depth: int) -> Answer | None:
    r"""The intervals of ``\text{all real numbers except }2``; None if the text is anything else."""
    said = exceptions(text)
    taken = None if said is None else _read(said, depth + 1)
    return None if taken is None else _without(REALS, taken)


def _difference(text: str, depth: int) -> Answer | None:
    r"""The intervals of ``\mathbb{R}\setminus\{2\}``; None if the text is anything else."""
    parts = [_read(part, depth + 1) for part in split(text.replace(r"\setminus", "∖"), "∖")]
    found = [part for part in parts if part is not None]
    return _without(*found) if len(found) == len(parts) == 2 else None


def _without(whole: Answer, taken: Answer) -> Answer | None:
    """The numbers of a set that are not in another; not only written ones if all but one are left."""
    (one, *others) = taken.items if isinstance(taken, Sequence) and taken.kind == "set" else (taken,)
    if whole == REALS and not others and isinstance(one, Expression) and is_constant(one):
        return around(one)
    return without(whole, taken)


def _leaf(text: str) -> Answer:
    if text in ("∞", "+∞", "-∞"):
        return Infinity(-1 if text[0] == "-" else 1)
    body, unit = without_unit(text)
    return Expression(body, unit=unit)


def _priced(answer: Answer | None, money: str) -> Answer | None:
    if not isinstance(answer, Expression):
        return answer
    unit = joined(answer.unit, money, "")
    return None if unit is None else replace(answer, unit=unit)


def _phrase(text: str, depth: int) -> Answer | None:
    """Values with words or colons between them, such as ``3:15``; None if it is anything else.

    A zero before minutes belongs to the colon: ``1:05`` is neither ``1:5`` nor a ratio.
    """
    parts = parts_of_phrase(text)
    if len(parts) < 2:  # none, if all text commands are empty
        return None
    found = [
        Words(f":{'0' * bool(_MINUTES.match(after.text))}")
        if part.said and part.text == ":"
        else Words(part.text)
        if part.said
        else _read(part.text, depth + 1)
        for part, after in zip(parts, [*parts[1:], Part("", False)], strict=True)
    ]
    items = tuple(item for item in found if item is not None)
    return Sequence("phrase", items) if len(items) == len(found) else None


def _bare(text: str) -> str:
    """Without dollars, a full stop, and braces and math brackets around the whole."""
    while True:
        before = text
        text = text.strip().strip("$").strip()
        if text.endswith((".", ",")) and not text.endswith("..."):
            text = text[:-1]
        if text.startswith(r"\(") and text.endswith(r"\)") and spans(text[1:-2] + ")"):
            text = text[2:-2]
        if text.startswith(r"\[") and text.endswith(r"\]") and spans(text[1:-2] + "]"):
            text = text[2:-2]
        if text.startswith("{") and text.endswith("}") and spans(text) and not split(text[1:-1], ",")[1:]:
            text = text[1:-1]
        if text == before:
            return text


def _sequence(text: str, parts: list[str], kind: Kind, depth: int) -> Answer:
    parts = [part for part in parts if part.strip()]
    if len(parts) > MOST_ITEMS:
        return Expression(text)
    if len(parts) == 1:
        return _read(parts[0], depth + 1) or Expression(text)
    names = [name_of(part) for part in parts]
    if all(names) and len(set(names)) == len(names):
        values = [part.partition("=")[2] for part in parts]
        return _named(names, values, depth) or Expression(text)
    items: tuple[Answer, ...] = ()
    for part in parts:
        item = _read(part, depth + 1)
        if item is None:
            return Expression(text)
        flat = isinstance(item, Sequence) and item.kind == "list" and kind == "list"
        items += item.items if flat and isinstance(item, Sequence) else (item,)
    if "≠" in parts[0] + parts[-1] and kind == "list" and not _OR.search(text) and (said := both(items)):
        return said
    if any(_RELATION.search(part) for part in parts) and "and" in text:
        bounds = common(*items) if len(items) == 2 else None
        return bounds or Expression(text)  # one answer with several conditions
    pairs = all(isinstance(item, Sequence) and len(item.items) == 2 for item in items)
    one_unknown = len({item.names for item in items if isinstance(item, Sequence) and item.names}) < 2
    if (
        kind == "list"
        and pairs
        and one_unknown
        and any("∞" in part or _RELATION.search(part) for part in parts)
    ):
        kind = "union"
    once = kind == "union" or all(isinstance(item, Sequence) for item in items)  # solutions, not data
    found = Sequence(kind, tuple(dict.fromkeys(items)) if once else items)
    return merged(found) if kind == "union" else found


def _named(names: list[str], values: list[str], depth: int) -> Sequence | None:
    found = [_read(value, depth + 1) for value in values]
    items = tuple(item for item in found if item is not None)
    return Sequence("named", items, tuple(names)) if len(items) == len(values) <= MOST_ITEMS else None


def _relation(text: str, depth: int) -> Answer | None:
    """The value of ``x = 5``, ``x ≈ 5`` or ``x ∈ {1, 2}``, the interval of ``0 < x ≤ 1``; else None."""
    parts, marks = cut(text)
    if not marks:
        return None
    if set(marks) <= set("<>≤≥"):
        return _interval(parts, marks, depth)
    if marks == ["≠"] and is_variable(parts[0]):
        value = _read(parts[1], depth + 1)
        return around(value, (parts[0],)) if value is not None and is_constant(value) else None
    if marks == ["="] and is_variable(parts[1]) and read_number(parts[0]) is not None:
        return _relation(f"{parts[1]}={parts[0]}", depth)  # 3 = x
    if set(marks) == {"≈"} and parts[0] and not is_name(parts[0]) and not has_unknowns(parts[0]):
        return _with_equation(_read(parts[0], depth + 1), text)
    if marks == ["∈"] and is_name(parts[0]):
        return _assigned(names_of_tuple(parts[0]), _read(parts[1], depth + 1))
    chain = steps(text)
    if chain is None:
        return None
    names = names_of_tuple(chain[0])
    if chain[0] and not (names or is_name(chain[0]) or is_derivative(chain[0])):
        return None
    value = _read(chain[-1], depth + 1)
    if value is None or not agree(chain[:-1], value):
        return None
    if chain[0] and not (names or is_asked_for(chain[0], constant=is_definite(value))):
        return None
    if (alike := names_of_chain(chain)) and is_constant(value):
        return Sequence("same", (value,), alike)
    return _with_equation(_assigned(names, value), text)


def _with_equation(value: Answer | None, text: str) -> Answer | None:
    return replace(value, equation=text) if isinstance(value, Expression) else value


def _assigned(names: tuple[str, ...], value: Answer | None) -> Answer | None:
    """A point, or each of several, with the names that ``(x, y)`` on the left gives to its parts.

    None if it has more or fewer parts.
    """
    if not names or not isinstance(value, Sequence):
        return value
    if value.kind in ("list", "set"):
        items = [_assigned(names, item) for item in value.items]
        return None if None in items else replace(value, items=tuple(item for item in items if item))
    if value.kind != "()":
        return value
    return Sequence("named", value.items, names) if len(value.items) == len(names) else None


def _interval(parts: list[str], marks: list[str], depth: int) -> Answer | None:
    if len(parts) == 2:
        left, right = (_read(part, depth + 1) if part else None for part in parts)
        mark = marks[0]
        if is_constant(left) and right is not None and not is_constant(right):
            left, right, mark, parts = right, left, _FLIP[mark], parts[::-1]
        if found := within(parts[0], mark, right):
            return found
        if left is None or right is None or not is_constant(right) or not is_variable(parts[0]):
            return None
        if mark in "<≤":
            return Sequence("(]" if mark == "≤" else "()", (Infinity(-1), right), (parts[0],))
        return Sequence("[)" if mark == "≥" else "()", (right, Infinity(1)), (parts[0],))
    if len(parts) != 3 or not is_variable(parts[1]):
        return None
    if set(marks) <= set(">≥"):
        parts, marks = parts[::-1], [_FLIP[mark] for mark in marks[::-1]]
    if not set(marks) <= set("<≤"):
        return None
    low, high = _read(parts[0], depth + 1), _read(parts[2], depth + 1)
    if low is None or high is None or not (is_constant(low) and is_constant(high)):
        return None
    kind: Kind = {"<<": "()", "<≤": "(]", "≤<": "[)", "≤≤": "[]"}["".join(marks)]  # type: ignore[assignment]
    return Sequence(kind, (low, high), (parts[1],))


def _bracketed(text: str, depth: int) -> Answer | None:
    r"""``(a, b)``, ``[a, b)``, ``\{a, b\}``, ``{a, b}`` and ``(a)``; None if no brackets are around it."""
    if text[0].isupper() and text[1:2] == "(":  # A(1, 2)
        point = _bracketed(text[1:], depth)
        named = isinstance(point, Sequence) and point.kind == "()" and all(map(is_constant, point.items))
        return replace(point, names=(text[0],)) if named and isinstance(point, Sequence) else None
    if text.startswith(r"\{") and text.endswith(r"\}"):
        inner, opened = text[2:-2], "{"
        if not spans(text[1:-2] + "}"):
            return None
    elif text[0] in "([{" and text[-1] in ")]}" and spans(text):
        inner, opened = text[1:-1], text[0]
    else:
        return None
    separator = ";" if len(split(inner, ";")) > 1 else ","
    parts = split(inner, separator)
    if GROUPED.fullmatch(inner) and ",0" not in inner:  # (1,234) is a point, and (1,000) a number
        parts = inner.split(",")
    if opened == "{":
        if any(mark in inner for mark in ("|", r"\mid", ":")):
            return _built(text, depth)
        found = _read(inner, depth + 1) if len(parts) == 1 else _sequence(text, parts, "list", depth)
        if found is None or isinstance(found, Expression):
            return None
        listed = isinstance(found, Sequence) and found.kind == "list"
        return Sequence("set", found.items if listed and isinstance(found, Sequence) else (found,))
    if len(parts) == 1:
        return _read(inner, depth + 1) if (text[0], text[-1]) == ("(", ")") else None
    if len(parts) > MOST_ITEMS or any(map(name_of, parts)):
        return None
    items = [_read(part, depth + 1) for part in parts]
    kind: Kind = f"{text[0]}{text[-1]}"  # type: ignore[assignment]
    return None if None in items else Sequence(kind, tuple(item for item in items if item is not None))


def _built(text: str, depth: int) -> Answer | None:
    """The interval, or the union of them, that the condition of a set says."""
    if (said := condition(text)) is None:
        return None
    found = _read(said.text, depth + 1)
    return unnamed(found) if found is not None and fulfils(found, said.name) else None


def _plus_minus(text: str, depth: int) -> Answer | None:
    if text.count("±") != 1 or "∓" in text:
        return None
    both = [_read(text.replace("±", sign), depth + 1) for sign in ("+", "-")]
    items = tuple(item for item in both if item is not None)
    return Sequence("list", items) if len(items) == 2 else None
