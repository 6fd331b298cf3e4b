"""The model's answer: the schema it has to fill, and what is made of what it filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mappa_env.coach.llm.criteria import BEST, RoleQuestions
from mappa_env.coach.llm.fences import neutral

NOBODY = "nobody"
_REASONING, _CORRECTION = 2000, 20000
_SPACE = re.compile(r"\s+")
_SHORTEST = 3


class UnreadableError(ValueError):
    """The answer does not fill the schema."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``grades`` and ``quotes`` by criterion. ``blame`` None: nobody."""

    grades: dict[str, int]
    quotes: dict[str, str]
    summary: str
    blame: str | None
    corrected: str | None = None


def schema(rows: RoleQuestions, names: Sequence[str], *, corrections: bool) -> dict[str, Any]:
    """JSON schema of an answer. Quote before grade: the model commits to evidence first."""
    graded = _object({
        "quote": {"type": "string", "description": "copied word for word from the facts or the agent's text"},
        "grade": {"type": "integer", "minimum": 0, "maximum": BEST},
    })  # fmt: skip
    fields: dict[str, Any] = {
        "criteria": _object({row.name: graded for row in rows.criteria}),
        "summary": {"type": "string", "description": "one or two sentences"},
        "blame": {"type": "string", "enum": [*names, NOBODY]},
    }
    if corrections:
        fields["corrected_action"] = {"type": ["string", "null"]}
    return _object(fields)


def read(text: str, rows: RoleQuestions, names: Sequence[str], *, corrections: bool) -> Answer:
    """Raises UnreadableError that says what is wrong, in words fit for asking again."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"not JSON ({type(error).__name__})") from None
    fields = {"criteria", "summary", "blame"} | ({"corrected_action"} if corrections else set())
    criteria = _exactly(found, fields, "the answer")["criteria"]
    _exactly(criteria, {row.name for row in rows.criteria}, "criteria")
    grades, quotes = {}, {}
    for row in rows.criteria:
        graded = _exactly(criteria[row.name], {"quote", "grade"}, row.name)
        grade, quote = graded["grade"], graded["quote"]
        if isinstance(grade, float) and grade.is_integer():
            grade = int(grade)
        if isinstance(grade, bool) or not isinstance(grade, int) or not 0 <= grade <= BEST:
            raise UnreadableError(
                f"the grade of {row.name} must be a whole number 0-{BEST}, found {grade!r:.60}"
            )
        if not isinstance(quote, str):
            raise UnreadableError(f"the quote of {row.name} must be a string")
        grades[row.name], quotes[row.name] = grade, quote
    if not isinstance(found["summary"], str):
        raise UnreadableError("summary must be a string")
    if found["blame"] not in (*names, NOBODY):
        raise UnreadableError(f"blame must be one of {[*names, NOBODY]}, found {found['blame']!r:.60}")
    corrected = found.get("corrected_action")
    if corrected is not None and (not isinstance(corrected, str) or len(corrected) > _CORRECTION):
        raise UnreadableError(
            f"corrected_action must be null or a string of at most {_CORRECTION} characters"
        )
    blame = None if found["blame"] == NOBODY else found["blame"]
    return Answer(grades, quotes, found["summary"][:_REASONING], blame, corrected or None)


def invented(answer: Answer, quotable: str) -> list[str]:
    """The criteria whose quote does not occur in what was shown, but for white space."""
    shown = _squeezed(quotable) + "\n" + _squeezed(neutral(quotable))
    wrong = []
    for name, quote in answer.quotes.items():
        text = _squeezed(quote)
        if len(text) < _SHORTEST or text not in shown:
            wrong.append(name)
    return wrong


def _squeezed(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _exactly(value: Any, fields: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableError(f"{where} must be an object")
    missing, unknown = sorted(fields - set(value)), sorted(set(value) - fields)
    if missing or unknown:
        raise UnreadableError(f"{where} lacks {missing} and has unknown {unknown[:5]!r:.200}")
    return value
