"""Reads and checks task files: JSON lists and JSON Lines of ``{prompt, answer, ...}`` rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.errors import DataError, DataMissingError

Row = Mapping[str, Any]


def read_rows(path: Path) -> list[Row]:
    """All rows of a file with one JSON list, or one JSON object per line.

    Raises DataMissingError if the file is missing and DataError, with the row, if it is malformed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise DataMissingError(f"the task file {str(path)!r} does not exist or is a folder.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}") from None
    rows: list[Any]
    if text.lstrip().startswith("["):
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise DataError(f"{path} is not valid JSON: {error}") from None
    else:
        rows = [_line(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: expected an object, found {row!r:.60}.")
        if not isinstance(row.get("prompt"), str) or not row["prompt"].strip():
            raise DataError(
                f"{path}, row {number}: 'prompt' must be a string, found {row.get('prompt')!r:.60}."
            )
        answer_of(row, f"{path}, row {number}")
    if not rows:
        raise DataError(f"{path} has no tasks.")
    return rows


def answer_of(row: Row, where: str) -> str:
    """The row's answer as text; a whole float such as 142.0 is the integer 142. Raises DataError."""
    answer = row.get("answer")
    if isinstance(answer, float) and answer.is_integer():
        return str(int(answer))
    if isinstance(answer, bool) or not isinstance(answer, (str, int, float)) or not str(answer).strip():
        raise DataError(f"{where}: 'answer' must be a string or a number, found {answer!r:.60}.")
    return str(answer).strip()


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}, line {number} is not valid JSON: {error}") from None
