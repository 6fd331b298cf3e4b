"""A digest of what a task asks: other problems under the same id are found out by it."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.data.stamps import Stamps, stamps_of
from mappa_env.errors import DataError
from mappa_env.types import Task

PARTS = ("text", "answer", "files")
"""What the parts of a content are of, in their order."""
_COMPUTED = ("constant", "reference")
"""Parts of a truth that follow from the others; the reference model takes seconds to fit."""
_DIGITS = 8


def content_of(task: Task) -> str:
    """Digests of the task's text, of its hidden truth and of its files, joined by hyphens; not of its id.

    Raises DataError if a file cannot be read.
    """
    truth = {key: task.truth[key] for key in task.truth if key not in _COMPUTED}
    parts = ([task.prompt, task.compact, task.meta], [task.metric, truth], task.files)
    return "-".join(map(digest, parts))


def digest(value: Any) -> str:
    """Eight hexadecimal digits that tell ``value`` from another; a path counts by what its file holds.

    Raises DataError if a file cannot be read.
    """
    return _short(json.dumps(_plain(value), sort_keys=True))


def changed_parts(before: str, now: str) -> list[str]:
    """The names of the parts in which two contents differ; all of them if one is of another form."""
    pairs = zip(PARTS, before.split("-"), now.split("-"), strict=False)
    return [name for name, one, other in pairs if one != other] or list(PARTS)


def _plain(value: Any) -> Any:
    """As JSON, the same in every process. What has no such form counts by its type alone."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(each), sort_keys=True) for each in value)
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Path):
        return _of_file(value, stamps_of([value]))
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return _plain(value.tolist())
    return value if isinstance(value, (str, int, float, type(None))) else type(value).__qualname__


@functools.lru_cache(maxsize=1024)
def _of_file(path: Path, stamps: Stamps) -> str:
    """Read once for all episodes, unless it changes (``stamps``)."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
