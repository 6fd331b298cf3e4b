"""Reads and checks task files: JSON lists and JSON Lines of ``{prompt, answer, ...}`` rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mappa_env.data.files import regular
from mappa_env.errors import DataError, MappaError

Row = Mapping[str, Any]
_BOM = b"\xef\xbb\xbf"


class Entry(NamedTuple):
    """A row of a file: where it stands, its value and, if it cannot be read, the ``problem``."""

    where: str
    value: Any
    problem: str = ""


def read_entries(path: Path) -> Iterator[Entry]:
    """The rows of a file with one JSON list, or one JSON value per line; invalid ones with their problem.

    Raises DataMissingError if the file is missing and DataError if it is not one of these.
    """
    regular(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    data = data.removeprefix(_BOM)
    if data.lstrip().startswith(b"["):
        value, problem = _parsed(data)
        if problem:
            raise DataError(f"{path} is {problem}")
        yield from (Entry(f"{path}, row {number}", row) for number, row in enumerate(value, 1))
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            value, problem = _parsed(line)
            yield Entry(f"{path}, line {number}", value, problem and f"is {problem}")


def read_whole(path: Path) -> Entry:
    """A file that is one JSON value."""
    try:
        value, problem = _parsed(regular(path).read_bytes().removeprefix(_BOM))
    except MappaError as error:
        return Entry(str(path), None, str(error).removeprefix(f"{path} "))
    except OSError as error:
        value, problem = None, f"not readable: {error.strerror or error}."
    return Entry(str(path), value, problem and f"is {problem}")


def read_rows(path: Path) -> list[Row]:
    """All rows of a file. Raises DataMissingError or DataError, with the row, if one is malformed."""
    rows = []
    for where, value, problem in read_entries(path):
        if problem:
            raise DataError(f"{where} {problem}")
        try:
            prompt_of(value)
            answer_of(value)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        rows.append(value)
    if not rows:
        raise DataError(f"{path} has no tasks.")
    return rows


def prompt_of(row: Any, *keys: str) -> str:
    """The row's text under the first of ``keys`` (default: ``prompt``) that it has. Raises DataError."""
    if not isinstance(row, dict):
        raise DataError(f"expected an object, found {row!r:.60}.")
    key = next((key for key in keys if key in row), keys[0] if keys else "prompt")
    text = row.get(key)
    if isinstance(text, str) and not text.strip():
        raise DataError(f"{key!r} is empty: a problem needs a text.")
    if not isinstance(text, str):
        raise DataError(f"{key!r} must be a string, found {text!r:.60}.")
    return storable(key, text.strip())


def answer_of(row: Row) -> str:
    """The row's answer as text; a whole float such as 142.0 is the integer 142. Raises DataError."""
    answer = row.get("answer")
    if isinstance(answer, float) and answer.is_integer():
        return str(int(answer))
    if isinstance(answer, float) and not math.isfinite(answer):
        raise DataError(f"'answer' must be a finite number, found {answer!r}.")
    if isinstance(answer, str) and not answer.strip():
        raise DataError("'answer' is empty: a problem needs an answer.")
    if isinstance(answer, bool) or not isinstance(answer, (str, int, float)):
        raise DataError(f"'answer' must be a string or a number, found {answer!r:.60}.")
    return storable("answer", str(answer).strip())


def check_storable(values: Mapping[str, Any]) -> None:
    """Raise DataError, with the key, if a value has a text that no file can hold."""
    for key, value in values.items():
        storable(key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def storable(key: str, text: str) -> str:
    """The text. JSON can write halves of characters, and NUL, which files and prompts cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{key!r} is not Unicode text: {error.reason} at {error.start}.") from None
    if "\0" in text:
        raise DataError(f"{key!r} has a NUL character at {text.index(chr(0))}.")
    return text


def _parsed(data: bytes) -> tuple[Any, str]:
    """(value, "") or (None, why the bytes are not JSON)."""
    try:
        return json.loads(data.decode("utf-8")), ""
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return None, f"not UTF-8 text: {error.reason} at byte {error.start}, line {line}."
    except (ValueError, RecursionError) as error:
        return None, f"not valid JSON: {error}"
