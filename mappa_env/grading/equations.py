"""Chains of equals and approximations: their sides, and whether they state one result, a constant or not."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mappa_env.grading.brackets import cut
from mappa_env.grading.expression import safe_value
from mappa_env.grading.naming import has_variables
from mappa_env.grading.numbers import Number, read_number, same_number
from mappa_env.grading.tree import Answer, Expression, Infinity, Sequence
from mappa_env.grading.units import joins

_NEXT = re.compile(r"[+-]?[0-9][0-9.,]* +[A-Za-z]")
"""A number and, after a space, the symbol of the next statement."""
_ARROW = re.compile(r"\\(?:[A-Za-z]*arrow|to|implies|iff|therefore|because|quad)(?![A-Za-z])|[→⇒⟹⇔⟺∴∵∧∨]")
_DECIMAL = re.compile(r"(?<![0-9.])([0-9]+)\.([0-9]{1,30})(?![0-9.])")
_AS_PYTHON = str.maketrans({"×": "*", "{": "(", "}": ")", "[": "(", "]": ")"})


def relates(text: str) -> bool:
    """Whether it is an equation, or another statement, rather than a value."""
    return len(sides(text)) > 1


def sides(text: str) -> list[str]:
    """What stands between the relations of a text."""
    return cut(text)[0]


def steps(text: str) -> list[str] | None:
    """The parts of a chain of equals, without approximations at its end; None if it is anything else."""
    parts, marks = cut(text)
    if not marks or not set(marks) <= {"=", "≈"}:
        return None
    at = next((n for n, mark in enumerate(marks) if mark == "≈"), 0)
    if at == 0:
        return parts if "≈" not in marks or len(parts) == 2 else None
    return parts[: at + 1]  # x = 1/3 ≈ 0.33


def is_constant(answer: Answer | None) -> bool:
    """Whether it is an infinity, or a number or an expression without variables."""
    if isinstance(answer, Expression):
        return not has_variables(answer.text)
    return isinstance(answer, (Number, Infinity))


def is_definite(value: Answer) -> bool:
    """Whether it is a constant, or several values."""
    return is_constant(value) or isinstance(value, Sequence)


def agree(chain: Iterable[str], found: Answer) -> bool:
    """Whether no step is a number other than the result, or begins a new statement.

    So not in ``x = 13 = 12``, ``x = 7 so y = 5`` and ``x = 7 y = 5``.
    """
    for n, step in enumerate(chain):
        number = read_number(step.strip())
        if number is not None and not (isinstance(found, Number) and same_number(number, found)):
            return False
        if n and number is None and (joins(step) or _NEXT.fullmatch(step.strip()) or _ARROW.search(step)):
            return False
    return True


def computes(step: str, found: Answer) -> bool:
    """Whether a step is arithmetic of written numbers whose value is the result: ``5+7`` for 12."""
    if not isinstance(found, Number) or step.strip().isdigit():
        return False
    step = _DECIMAL.sub(lambda part: f"({int(part[1] + part[2])}/1{'0' * len(part[2])})", step)
    return safe_value(step.translate(_AS_PYTHON).replace("^", "**")) == found.value
