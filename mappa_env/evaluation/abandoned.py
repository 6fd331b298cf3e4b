"""What episodes took that were not finished, or were played again: it was paid for all the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mappa_env.errors import DataError
from mappa_env.evaluation.episodes import Tokens, append_line, tokens_of, whole_lines
from mappa_env.json_and_yaml import check_amount, check_type, read_json

FILE = "abandoned.jsonl"


@dataclass(frozen=True, slots=True)
class Abandoned:
    """An episode without a result. ``tokens``: by agent."""

    env: str
    task_id: str
    sample: int
    why: str
    tokens: Mapping[str, Tokens]


def append_abandoned(folder: Path, each: Abandoned) -> None:
    """Write one line."""
    append_line(folder / FILE, dataclasses.asdict(each))


def load_abandoned(folder: Path, *, repair: bool = False) -> list[Abandoned]:
    """All so far, by ``whole_lines``. Raises DataError for a line that is none."""
    path = folder / FILE
    found = []
    for number, line in enumerate(whole_lines(path, repair=repair), 1):
        try:
            row = read_json(line)
            check_type("sample", row["sample"], (int,))
            check_amount("sample", row["sample"])
            found.append(Abandoned(**row | {"tokens": tokens_of(row["tokens"])}))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path} line {number} cannot be read ({error}): remove the line.") from None
    return found
