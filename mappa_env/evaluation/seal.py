"""Whether the parts of a finished evaluation still belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mappa_env.errors import EvaluationError
from mappa_env.evaluation.comparison import compared

_REMEDY = (
    "one of them was changed after the evaluation, so it is not ranked. Restore the file, or evaluate again "
    "with another --out."
)

_ALWAYS = frozenset(
    {"tasks", "samples", "digest", "success", "success.mean", "score", "score.mean"},
)
"""Figures that results of every version have."""
_ENDS = frozenset({"low", "high"})
"""Of an interval. Earlier versions gave ends to those of one task, too."""
_NAMED = frozenset({"values", "topics", "rewards", "flaws", "tokens", "abandoned"})
"""Figures by names that the episodes give, such as those of agents: all versions find the same names."""


def check_sealed(path: Path, written: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Compare ``written``, the results at ``path``, with ``found``, what settings and episodes there give.

    Raises EvaluationError if a figure, a model's version, an episode, or a setting that changes results is
    another, or is on one side alone. Only figures that one of two versions does not know may be.
    """
    old, new = written.get("settings"), found["settings"]
    old, new = compared(old) if isinstance(old, Mapping) else {}, compared(new)
    for key in dict.fromkeys([*new, *old]):
        if old.get(key) != new.get(key):
            raise EvaluationError(
                f"{path} says {key}={old.get(key)!r}, but the settings beside it have "
                f"{key}={new.get(key)!r}: {_REMEDY}"
            )
    if written.get("versions") != found["versions"]:
        raise EvaluationError(
            f"{path} says that {written.get('versions')!r} answered, but the episodes beside it say "
            f"{found['versions']!r}: {_REMEDY}"
        )
    then, now = _rows(written), _rows(found)
    for env in dict.fromkeys([*now, *then]):
        for before, after in _differences(then.get(env, {}), now.get(env, {})):
            raise EvaluationError(
                f"{path} says {before} of {env}, but the episodes beside it have {after}: {_REMEDY}"
            )
    sealed = written.get("sources", found["sources"])
    cards = {env: each for env, each in found["sources"].items() if each}
    if not isinstance(sealed, Mapping) or any(sealed.get(env) != each for env, each in cards.items()):
        raise EvaluationError(
            f"{path} is of other cards than those that planned.json beside it says: {_REMEDY}"
        )
    if "run" in written and written["run"] != found["run"]:  # earlier versions did not write it
        raise EvaluationError(
            f"{path} is of other episodes than those beside it, though their figures agree: {_REMEDY}"
        )


def _rows(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Environment -> its figures."""
    rows = document.get("environments")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {str(row.get("env")): row for row in rows}


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], above: str = "", *, named: bool = False
) -> Iterator[tuple[str, str]]:
    """What one side says and what the other, in words. ``named``: the names are those of episodes."""
    for name in dict.fromkeys([*after, *before]):
        path = f"{above}{name}"
        if not named and path not in _ALWAYS and not (name in before and name in after):
            continue
        one, other = before.get(name), after.get(name)
        if name in _ENDS and not named and other is None and name in after:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _differences(one, other, f"{path}.", named=path in _NAMED)
        elif not _same(one, other):
            yield (
                f"{path}={one!r}" if name in before else f"nothing of {path}",
                f"{path}={other!r}" if name in after else f"no {path}",
            )


def _same(one: object, other: object) -> bool:
    """Equal up to the rounding of sums."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other
