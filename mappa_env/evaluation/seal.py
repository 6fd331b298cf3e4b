"""Whether the parts of a finished evaluation still belong together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.errors import EvaluationError
from mappa_env.evaluation.comparison import compared

_REMEDY = (
    "one of them was changed after the evaluation, so it is not ranked. Restore the file, or evaluate again "
    "with another --out."
)

_ALWAYS = ("tasks", "samples", "digest", "success.mean", "score.mean")
"""Figures that results of every version have."""


def check_sealed(path: Path, written: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Compare ``written``, the results at ``path``, with ``found``, what settings and episodes there give.

    Raises EvaluationError if a figure, a model's version, or a setting that changes results is another.
    """
    old, new = written.get("settings"), found["settings"]
    old = compared(old) if isinstance(old, Mapping) else {}
    for key, value in compared(new).items():
        if old.get(key) != value:
            raise EvaluationError(
                f"{path} says {key}={old.get(key)!r}, but the settings beside it have {key}={value!r}: "
                f"{_REMEDY}"
            )
    if written.get("versions") != found["versions"]:
        raise EvaluationError(
            f"{path} says that {written.get('versions')!r} answered, but the episodes beside it say "
            f"{found['versions']!r}: {_REMEDY}"
        )
    rows = written.get("environments")
    then = {row.get("env"): row for row in rows if isinstance(row, dict)} if isinstance(rows, list) else {}
    for now in found["environments"]:
        before, after = _flat(then.get(now["env"], {})), _flat(now)
        for name, value in after.items():
            if name not in before and name not in _ALWAYS:  # another version did not know it
                continue
            if not _same(before.get(name), value):
                raise EvaluationError(
                    f"{path} says {name}={before.get(name)!r} of {now['env']}, but the episodes beside it "
                    f"have {name}={value!r}: {_REMEDY}"
                )


def _flat(row: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The figures by their paths, such as ``success.mean``."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def _same(one: object, other: object) -> bool:
    """Equal up to the rounding of sums."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other
