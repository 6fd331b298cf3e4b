"""The documents of a folder, cut into passages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mappa_env.errors import OptionError
from mappa_env.json_and_yaml import read_json

ENDINGS = (".txt", ".md", ".jsonl")
MAX_BYTES = 64 << 20
"""Bytes of one file."""


class Passage(NamedTuple):
    """A passage. ``document``: the file's path within the folder; ``#<id>`` follows in a JSONL file."""

    document: str
    title: str
    text: str


def read_passages(folder: Path, words: int) -> list[Passage]:
    """The passages of all ``.txt``, ``.md`` and ``.jsonl`` files below ``folder``, by path.

    A text file is one document; its title is its first line. A row of a JSONL file is one, too: an object
    with ``text`` (or ``contents``) and optional ``id`` and ``title``. A document of more than ``words`` words
    is cut between paragraphs, or within longer ones. Links are not followed. Raises OptionError for a folder
    without documents, and for a file that cannot be read.
    """
    passages = [
        passage
        for path in sorted(_files(folder))
        for document, title, text in _documents(path, path.relative_to(folder).as_posix())
        for passage in _cut(document, title, text, words)
    ]
    if not passages:
        raise OptionError(
            f"the folder {str(folder)!r} has no documents: it needs {', '.join(ENDINGS)} files."
        )
    return passages


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.suffix.lower() in ENDINGS and path.is_file() and not path.is_symlink():
                yield path


def _documents(path: Path, name: str) -> Iterator[tuple[str, str, str]]:
    if path.stat().st_size > MAX_BYTES:
        raise OptionError(f"{path} has more than {MAX_BYTES >> 20} MiB: split it.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is no text in UTF-8: {error}") from None
    if path.suffix.lower() != ".jsonl":
        title, _, body = text.strip().partition("\n")
        yield name, title.lstrip("# ").strip(), body.strip()
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            row = _row(path, number, line)
            number = number if row.get("id") is None else row["id"]
            yield f"{name}#{number}", str(row.get("title") or ""), row["text"]


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = read_json(line)
    except ValueError as error:
        raise OptionError(f"{path} line {number} is not JSON: {error}") from None
    text = row.get("text", row.get("contents")) if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise OptionError(f"{path} line {number} must be an object with a text under 'text'.")
    return {**row, "text": text}


def _cut(document: str, title: str, text: str, words: int) -> Iterator[Passage]:
    kept: list[str] = []
    length = 0
    for paragraph in _paragraphs(text, words):
        count = len(paragraph.split())
        if kept and length + count > words:
            yield Passage(document, title, "\n\n".join(kept))
            kept, length = [], 0
        kept.append(paragraph)
        length += count
    yield Passage(document, title, "\n\n".join(kept))


def _paragraphs(text: str, words: int) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        parts = paragraph.split()
        if len(parts) <= words:
            if parts:
                yield paragraph.strip()
            continue
        for at in range(0, len(parts), words):
            yield " ".join(parts[at : at + words])
