"""The years of contest problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mappa_env.data.files import regular
from mappa_env.errors import OptionError
from mappa_env.json_and_yaml import read_json

FIRST, LAST = 1900, 2100
"""The years that a file may name."""
_YEAR = re.compile(r"(?<!\d)(?:19[5-9]\d|20\d\d)(?!\d)")
_NUMBER = re.compile(r"(?:19[5-9]\d|20\d\d)-(?:I+-)?(\d{1,2})$")


def year_of(task_id: str, known: Mapping[str, int]) -> int | None:
    """As ``known`` says, or as the id does (``aime-2024-II-15``, ``aime-aime_2025-003``); None: unknown."""
    if task_id in known:
        return known[task_id]
    found = set(_YEAR.findall(task_id))
    return int(found.pop()) if len(found) == 1 else None


def number_of(task_id: str) -> int | None:
    """The problem's number in its contest, where the id has it: contests put harder problems later."""
    found = _NUMBER.search(task_id)
    return int(found[1]) if found else None


def read_years(path: Path | None) -> dict[str, int]:
    """Task id -> year, from a JSON object. Raises OptionError."""
    if path is None:
        return {}
    try:
        found = read_json(regular(path).read_bytes())
    except (OSError, ValueError) as error:
        raise OptionError(f"--years {path} cannot be read: {error}") from None
    if not isinstance(found, dict) or not all(type(year) is int for year in found.values()):
        raise OptionError(f'--years {path} must be a JSON object like {{"amc-17": 2023}}.')
    if wrong := next((task for task, year in found.items() if not FIRST <= year <= LAST), None):
        raise OptionError(f"--years {path}: {wrong!r} is of {found[wrong]}, not of {FIRST} to {LAST}.")
    return found
