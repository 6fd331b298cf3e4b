"""Reads answers as trees: numbers, words, lists, points, intervals, and expressions that need algebra."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from mappa_env.grading.brackets import GROUPED, cut, spans, split
from mappa_env.grading.expression_units import without_unit
from mappa_env.grading.latex import CLOSE, GROUP, OPEN, balanced, clean
from mappa_env.grading.naming import defines, is_derivative, is_name
from mappa_env.grading.numbers import Number, read_number, same_number
from mappa_env.grading.phrases import Part, parts_of_phrase
from mappa_env.grading.tree import Answer, Choice, Expression, Infinity, Kind, Sequence, Words
from mappa_env.grading.unit_names import MONEY, joined
from mappa_env.grading.units import joins
from mappa_env.grading.wording import plain

LONGEST = 2000
"""Characters of the longest text that is read."""
MOST_ITEMS = 64
MAX_DEPTH = 8

_MINUTES = re.compile("0[0-9]")
_LABEL = re.compile(rf"(?:{OPEN} ?\(([A-Z])\) ?{CLOSE}|\(([A-Z])\))[ .:]*(?=[^] .:,;)({{\[])")
_LETTER = re.compile(r"(?:(?:choice|option|answer) )?\(?([A-Z])\)?\.?", re.IGNORECASE)
_LABEL_AFTER = re.compile(rf" ?{OPEN} ?\(([A-Z])\) ?{CLOSE}[ .]*$")
_BASED = re.compile(r"(\()?([0-9][0-9A-F.]*)(?(1)\)) ?_ ?(?:\{ ?([0-9]{1,2}) ?\}|([0-9]{1,2}))")
_RELATION = re.compile(r"[<>≤≥]")
_PROSE = re.compile(rf"[A-Za-z{OPEN}{CLOSE} ,.;:!?'\"-]+")
_NEXT = re.compile(r"[+-]?[0-9][0-9.,]* +[A-Za-z]")
"""A number and, after a space, the symbol of the next statement."""
_ARROW = re.compile(
    r"\\(?:[A-Za-z]*arrow|to|implies|iff|therefore|because|quad|land|lor|wedge|vee)(?![A-Za-z])|[→⇒⟹⇔⟺∴∵∧∨]"
)
_PLAIN_WORDS = re.compile(r"[A-Za-z]+(?:[ ,.'-]+[A-Za-z]+)*[.!]?")
_LONG_WORD = re.compile(r"[A-Za-z]{3}")
_MONEY = "".join(MONEY)
_FLIP = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
_ENDS = {"(": ")", "[": "]"}


def read_answer(text: str) -> Answer | None:
    """The answer that a text gives; None if it is blank, too long or its braces do not match."""
    if len(text) > LONGEST:
        return None
    text = plain(clean(text))
    if not balanced(text):
        return None
    return _read(text, 0)


def result(text: str) -> Answer | None:
    """The right side of ``m + n = 23``, whose left side defines what is asked for; None for anything else."""
    parts = _steps(text)
    if parts is None or len(parts) < 2 or not (defines(parts[0]) or read_number(parts[0]) is not None):
        return None
    if not any(c.isalpha() for part in parts[:-1] for c in part):
        return None
    found = _read(parts[-1], 1)
    return found if found is not None and _agree(parts[:-1], found) else None


def relates(text: str) -> bool:
    """Whether it is an equation, or another statement, rather than a value."""
    return len(sides(text)) > 1


def sides(text: str) -> list[str]:
    """What stands between the relations of a text."""
    return cut(text)[0]


def _agree(steps: Iterable[str], found: Answer) -> bool:
    """Whether no step is a number other than the result, or begins a new statement.

    So not in ``x = 13 = 12``, ``x = 7 so y = 5`` and ``x = 7 y = 5``.
    """
    for n, step in enumerate(steps):
        number = read_number(step.strip())
        if number is not None and not (isinstance(found, Number) and same_number(number, found)):
            return False
        if n and number is None and (joins(step) or _NEXT.fullmatch(step.strip()) or _ARROW.search(step)):
            return False
    return True


def _steps(text: str) -> list[str] | None:
    """The parts of a chain of equals, without approximations at its end; None if it is anything else."""
    parts, marks = cut(text)
    if not marks or not set(marks) <= {"=", "≈"}:
        return None
    at = next((n for n, mark in enumerate(marks) if mark == "≈"), 0)
    if at == 0:
        return parts if "≈" not in marks or len(parts) == 2 else None
    return parts[: at + 1]  # x = 1/3 ≈ 0.33


def _read(text: str, depth: int) -> Answer | None:
    text = _bare(text)
    if not text:
        return None
    if depth > MAX_DEPTH:
        return Expression(text)
    if label := _LABEL.match(text):
        value = _read(text[label.end() :], depth + 1)
        return None if value is None else Choice(Words(label[1] or label[2]), value)
    if (label := _LABEL_AFTER.search(text)) and label.start() > 0:
        value = _read(text[: label.start()], depth + 1)
        return None if value is None else Choice(Words(label[1]), value)
    if based := _BASED.fullmatch(text):
        return Words(f"{based[2]}_{based[3] or based[4]}")
    found = read_number(text[1:-1].strip() if _is_marked(text) else text) or _words(text)
    if found is not None:
        return found
    if _is_marked(text):
        return _read(text[1:-1], depth + 1)
    bare = text.strip(_MONEY)
    if bare != text and not split(text, ",")[1:] and read_number(bare) is None:
        return _priced(_read(bare, depth + 1), next(MONEY[c] for c in text if c in MONEY))
    for separator in ("∪", ";", "or", ","):
        parts = split(text, separator)
        if len(parts) > 1:
            return _sequence(text, parts, "union" if separator == "∪" else "list", depth)
    return (
        _relation(text, depth)
        or _bracketed(text, depth)
        or _plus_minus(text, depth)
        or _phrase(text, depth)
        or _leaf(text)
    )


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
    found = [
        Words(f":{'0' * bool(_MINUTES.match(after.text))}")
        if part.said and part.text == ":"
        else Words(part.text)
        if part.said
        else _read(part.text, depth + 1)
        for part, after in zip(parts, [*parts[1:], Part("", False)], strict=True)
    ]
    items = tuple(item for item in found if item is not None)
    return Sequence("phrase", items) if 1 < len(items) == len(found) else None


def _bare(text: str) -> str:
    """Without dollars, a full stop, and braces and math brackets around the whole."""
    while True:
        before = text
        text = text.strip().strip("$").strip()
        if text.endswith((".", ",")) and not text.endswith("..."):
            text = text[:-1]
        if text.startswith(r"\(") and text.endswith(r"\)") and spans(text[1:-2] + ")"):
            text = text[2:-2]
        if text.startswith("{") and text.endswith("}") and spans(text) and not split(text[1:-1], ",")[1:]:
            text = text[1:-1]
        if text == before:
            return text


def _words(text: str) -> Answer | None:
    """The words of a text command, or plain ones."""
    if _is_marked(text):
        inner = text[1:-1].strip()
        if not inner or any(mark in inner for mark in "\\=<>^_+*/" + GROUP) or split(inner, ",")[1:]:
            return None
        return _letter(inner) or Words(" ".join(inner.strip(".,;:! ").split()))
    if letter := _letter(text):
        return letter
    marked = OPEN in text and _PROSE.fullmatch(text)
    if marked or (_LONG_WORD.search(text) and _PLAIN_WORDS.fullmatch(text)):
        if split(text, "or")[1:] or ("," in text and marked):
            return None
        return Words(" ".join(text.replace(OPEN, " ").replace(CLOSE, " ").strip(".,;:! ").split()))
    return None


def _is_marked(text: str) -> bool:
    return text.startswith(OPEN) and text.endswith(CLOSE) and text.count(OPEN) == 1


def _letter(text: str) -> Words | None:
    found = _LETTER.fullmatch(text)
    return Words(found[1]) if found and (len(text) == 1 or found[1].isupper()) else None


def _sequence(text: str, parts: list[str], kind: Kind, depth: int) -> Answer:
    parts = [part for part in parts if part.strip()]
    if len(parts) > MOST_ITEMS:
        return Expression(text)
    if len(parts) == 1:
        return _read(parts[0], depth + 1) or Expression(text)
    names = [_name(part) for part in parts]
    if all(names) and len(set(names)) == len(names):
        found = [_read(part.partition("=")[2], depth + 1) for part in parts]
        items = tuple(item for item in found if item is not None)
        return (
            Sequence("named", items, tuple(map(str, names))) if len(items) == len(parts) else Expression(text)
        )
    items = ()
    for part in parts:
        item = _read(part, depth + 1)
        if item is None:
            return Expression(text)
        flat = isinstance(item, Sequence) and item.kind == "list" and kind == "list"
        items += item.items if flat and isinstance(item, Sequence) else (item,)
    if any(_RELATION.search(part) for part in parts) and "and" in text:
        return Expression(text)  # one answer with several conditions
    pairs = all(isinstance(item, Sequence) and len(item.items) == 2 for item in items)
    if kind == "list" and pairs and any("∞" in part or _RELATION.search(part) for part in parts):
        kind = "union"
    return Sequence(kind, tuple(dict.fromkeys(items)))


def _name(part: str) -> str:
    """The symbol to which a part assigns a value; empty if it does not."""
    left, equals, _ = part.partition("=")
    left = left.strip()
    return left if equals and is_name(left) else ""


def _relation(text: str, depth: int) -> Answer | None:
    """The value of ``x = 5``, ``x ≈ 5`` or ``x ∈ {1, 2}``, the interval of ``0 < x ≤ 1``; else None."""
    parts, marks = cut(text)
    if not marks:
        return None
    if set(marks) <= set("<>≤≥"):
        return _interval(parts, marks, depth)
    if marks == ["∈"] and is_name(parts[0]):
        return _read(parts[1], depth + 1)
    chain = _steps(text)
    if chain is None or (chain[0] and not is_name(chain[0]) and not is_derivative(chain[0])):
        return None
    value = _read(chain[-1], depth + 1)
    if value is None or not _agree(chain[:-1], value):
        return None
    return replace(value, equation=text) if isinstance(value, Expression) else value


def _interval(parts: list[str], marks: list[str], depth: int) -> Answer | None:
    if len(parts) == 2:
        left, right = (_read(part, depth + 1) if part else None for part in parts)
        mark = marks[0]
        if is_constant(left) and right is not None and not is_constant(right):
            left, right, mark, parts = right, left, _FLIP[mark], parts[::-1]
        if left is None or right is None or not is_constant(right) or not _variable(parts[0]):
            return None
        if mark in "<≤":
            return Sequence("(]" if mark == "≤" else "()", (Infinity(-1), right), (parts[0],))
        return Sequence("[)" if mark == "≥" else "()", (right, Infinity(1)), (parts[0],))
    if len(parts) != 3 or not _variable(parts[1]):
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


def _variable(text: str) -> bool:
    return bool(
        re.fullmatch(r"(?:\\[A-Za-z]+|[A-Za-z])(?:_[A-Za-z0-9]|_\{[A-Za-z0-9]+\}|\([A-Za-z]\))?", text)
    )


def is_constant(answer: Answer | None) -> bool:
    """Whether it is an infinity, or a number or an expression without variables."""
    if isinstance(answer, Expression):
        return not re.search(r"(?<![\\A-Za-z])[A-Za-z]", answer.text)
    return isinstance(answer, (Number, Infinity))


def _bracketed(text: str, depth: int) -> Answer | None:
    r"""``(a, b)``, ``[a, b)``, ``\{a, b\}``, ``{a, b}`` and ``(a)``; None if no brackets are around it."""
    if text.startswith(r"\{") and text.endswith(r"\}"):
        inner, opened = text[2:-2], "{"
        if not spans(text[1:-2] + "}"):
            return None
    elif text[0] in "([{" and text[-1] in ")]}" and spans(text):
        inner, opened = text[1:-1], text[0]
    else:
        return None
    separator = ";" if len(split(inner, ";")) > 1 else ","
    parts = inner.split(",") if GROUPED.fullmatch(inner) else split(inner, separator)
    if opened == "{":
        if any(mark in inner for mark in ("|", r"\mid", ":")):
            return None
        found = _read(inner, depth + 1) if len(parts) == 1 else _sequence(text, parts, "list", depth)
        if found is None or isinstance(found, Expression):
            return None
        listed = isinstance(found, Sequence) and found.kind == "list"
        return Sequence("set", found.items if listed and isinstance(found, Sequence) else (found,))
    if len(parts) == 1:
        return _read(inner, depth + 1) if (text[0], text[-1]) == ("(", ")") else None
    if len(parts) > MOST_ITEMS:
        return None
    items = [_read(part, depth + 1) for part in parts]
    kind: Kind = f"{text[0]}{text[-1]}"  # type: ignore[assignment]
    return None if None in items else Sequence(kind, tuple(item for item in items if item is not None))


def _plus_minus(text: str, depth: int) -> Answer | None:
    if text.count("±") != 1 or "∓" in text:
        return None
    both = [_read(text.replace("±", sign), depth + 1) for sign in ("+", "-")]
    items = tuple(item for item in both if item is not None)
    return Sequence("list", items) if len(items) == 2 else None
