"""The model's answer: its JSON schema, and the strict reader."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mappa_env.coach.llm.criteria import BEST, RoleQuestions
from mappa_env.coach.llm.fences import neutral

NOBODY = "nobody"
Key = TypeVar("Key")
_REASONING, _CORRECTION = 2000, 20000
_SPACE = re.compile(r"\s+")
_SHORTEST = 3


class UnreadableError(ValueError):
    """The answer does not match the schema."""


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
    graded = form_of(
        {
            "quote": {
                "type": "string",
                "description": "copied word for word from the facts or the agent's text",
            },
            "grade": {"type": "integer", "minimum": 0, "maximum": BEST},
        }
    )
    fields: dict[str, Any] = {
        "criteria": form_of({row.name: graded for row in rows.criteria}),
        "summary": {"type": "string", "description": "one or two sentences"},
        "blame": {"type": "string", "enum": [*names, NOBODY]},
    }
    if corrections:
        fields["corrected_action"] = {"type": ["string", "null"]}
    return form_of(fields)


def read(text: str, rows: RoleQuestions, names: Sequence[str], *, corrections: bool) -> Answer:
    """Parse an answer. Raises UnreadableError, whose message can be sent back to the model."""
    found = loads(text)
    fields = {"criteria", "summary", "blame"} | ({"corrected_action"} if corrections else set())
    criteria = exactly(found, fields, "the answer")["criteria"]
    exactly(criteria, {row.name for row in rows.criteria}, "criteria")
    grades, quotes = {}, {}
    for row in rows.criteria:
        graded = exactly(criteria[row.name], {"quote", "grade"}, row.name)
        grade, quote = integer(graded["grade"], f"the grade of {row.name}"), graded["quote"]
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


def invented(quotes: Mapping[Key, str], quotable: str) -> list[Key]:
    """The keys whose quote does not occur in ``quotable``; white space is ignored."""
    shown = _squeezed(quotable) + "\n" + _squeezed(neutral(quotable))
    return [name for name, quote in quotes.items() if not _occurs(quote, shown)]


def loads(text: str) -> Any:
    """The JSON value of ``text``. Raises UnreadableError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"not JSON ({type(error).__name__})") from None


def integer(grade: Any, what: str) -> int:
    """``grade`` as an integer within 0-BEST. Raises UnreadableError."""
    if isinstance(grade, float) and grade.is_integer():
        grade = int(grade)
    if isinstance(grade, bool) or not isinstance(grade, int) or not 0 <= grade <= BEST:
        raise UnreadableError(f"{what} must be a whole number 0-{BEST}, found {grade!r:.60}")
    return grade


def _occurs(quote: str, shown: str) -> bool:
    text = _squeezed(quote)
    return len(text) >= _SHORTEST and text in shown


def _squeezed(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def form_of(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON schema of an object with exactly these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def exactly(value: Any, fields: set[str], where: str) -> dict[str, Any]:
    """``value``, if it is an object with exactly these fields. Raises UnreadableError."""
    if not isinstance(value, dict):
        raise UnreadableError(f"{where} must be an object")
    missing, unknown = sorted(fields - set(value)), sorted(set(value) - fields)
    if missing or unknown:
        raise UnreadableError(f"{where} lacks {missing} and has unknown {unknown[:5]!r:.200}")
    return value
