r"""The MATH problems of Hendrycks et al. (2021, arXiv 2103.03874), from the user's copy.

A copy is a folder of ``train`` and ``test``, or one of these: a folder per subject, with a JSON file per
problem, ``{problem, level, type, solution}``. Or it is one file of such rows, as of MATH-500, which may have
``answer``, ``subject`` and ``unique_id``. Without an ``answer``, it is the solution's last ``\boxed{}``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mappa_env.data.base import ListTaskSet
from mappa_env.data.golds import gold_of
from mappa_env.data.problems import Problems
from mappa_env.data.rows import Entry, Row, prompt_of, read_entries, read_whole
from mappa_env.data.sifting import Sifted, sift
from mappa_env.errors import DataError, DataMissingError
from mappa_env.parsing import last_boxed
from mappa_env.types import Task

FOLDERS = {"train": "train", "eval": "test"}
"""Split -> its folder in a copy."""

_LEVEL = re.compile(r"(?:Level )?([1-9])")
_BOX = re.compile(r"\\(?:boxed|fbox) *\{")
_SHORT_BOX = re.compile(r"\\(?:boxed|fbox) ([0-9A-Za-z])|\\fbox *(?=\{)")


def load(split: str, *, exclude: str | None = None) -> ListTaskSet:
    """MATH problems; see ``Problems.load``."""
    return MATH.load(split, exclude)


def read_math(path: Path, split: str) -> Sifted:
    """The problems of a file, or of a folder of subjects. Raises DataMissingError, DataError."""
    entries = _folder(path) if path.is_dir() else read_entries(path)
    return sift(str(path), entries, functools.partial(_task, path.stem, split))


def math_row(task: Task) -> Row:
    """A task as a row of the store."""
    own = task.id.removeprefix("math-")
    return {"unique_id": own, "problem": task.prompt, "type": task.topic, **task.meta, **task.truth}


MATH = Problems("math", read_math, math_row)


def _folder(path: Path) -> Iterator[Entry]:
    files = [file for file in sorted(path.glob("*/*.json")) if not file.parent.name.startswith((".", "_"))]
    if not files:
        raise DataMissingError(
            f"{path} has no problems: it must hold a folder per subject with a JSON file per problem, "
            "or pass the folder 'train' or 'test' of your copy."
        )
    for file in sorted(files, key=lambda file: (file.parent.name, len(file.stem), file.stem)):
        entry = read_whole(file)
        own = {"unique_id": f"{file.parent.name}/{file.stem}"}
        yield entry._replace(value=own | entry.value) if isinstance(entry.value, dict) else entry


def _task(file: str, split: str, number: int, row: Any) -> Task:
    prompt = prompt_of(row, "problem", "prompt", "question")
    if "answer" not in row:
        row = row | {"answer": _answer(row.get("solution"))}
    own = next((row[key] for key in ("unique_id", "id") if isinstance(row.get(key), str)), "")
    own = own.removesuffix(".json").replace("/", "-").replace(" ", "_") or f"{file}-{number:05d}"
    topic = next((row[key] for key in ("type", "subject") if isinstance(row.get(key), str)), "")
    level = _LEVEL.fullmatch(str(row.get("level", "")))
    return Task(
        id=f"math-{own}",
        prompt=prompt,
        metric="exact_match",
        topic=topic,
        split=split,
        truth=gold_of(row),
        meta={"level": int(level[1])} if level else {},
    )


def _answer(solution: Any) -> str:
    if not isinstance(solution, str):
        raise DataError(f"'answer' or 'solution' must be a string, found {solution!r:.60}.")
    box = last_boxed(_SHORT_BOX.sub(_long_box, solution))
    if box is None:
        end = f"it ends {solution[-60:]!r}"
        if _BOX.search(solution):
            raise DataError(rf"the braces after the solution's \boxed do not match; {end}.")
        raise DataError(rf"the solution has no \boxed{{}} with the answer; {end}.")
    return box


def _long_box(match: re.Match[str]) -> str:
    return rf"\boxed{{{match[1]}}}" if match[1] else r"\boxed"
