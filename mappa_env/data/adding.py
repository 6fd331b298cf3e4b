"""Adds the user's own task files to the store: checks them first, then writes them atomically."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env.data.contest import read_contest, without
from mappa_env.data.leaks import check_disjoint
from mappa_env.data.store import SPLITS, Added, stored
from mappa_env.data.tabular import dsbench
from mappa_env.errors import OptionError, nearest
from mappa_env.places import data_root

CONTESTS = ("aime", "amc")


def add(name: str, path: str | Path, *, split: str = "train", drop_overlap: bool = False) -> Added:
    """Check the problems of a file and store them as ``split`` of ``aime`` or ``amc``.

    For ``dsbench``, ``path`` is a folder with both splits. ``drop_overlap``: drop problems of the other
    split; by default they are an error. Raises DataError, OptionError, DataMissingError.
    """
    if name == "dsbench":
        return dsbench.add(Path(path))
    if name not in CONTESTS:
        known = (*CONTESTS, "dsbench")
        raise OptionError(f"{name!r} takes no added data; choose from {known}." + nearest(name, known))
    if split not in SPLITS:
        raise OptionError(f"split={split!r} is unknown; use one of {SPLITS}." + nearest(split, SPLITS))
    tasks = read_contest(name, Path(path), split)
    other = next(s for s in SPLITS if s != split)
    other_file = stored(name, other, missing_ok=True)
    others = read_contest(name, other_file, other) if other_file else []
    kept = without(tasks, others) if drop_overlap else tasks
    train, held_out = (kept, others) if split == "train" else (others, kept)
    check_disjoint(train, held_out, "Leave them out with --drop-overlap.")
    rows = [
        {
            "id": task.id.removeprefix(f"{name}-"),
            "prompt": task.prompt,
            "answer": task.truth["answer"],
            **_contest_fields(task.meta),
        }
        for task in kept
    ]
    target = data_root() / name / f"{split}.json"
    _write(target, json.dumps(rows, ensure_ascii=False, indent=1))
    return Added(target, len(kept), len(tasks) - len(kept))


def _contest_fields(meta: Mapping[str, Any]) -> dict[str, Any]:
    if not meta:
        return {}
    return {"year": meta["year"], "part": meta["part"], "problem_number": meta["number"]}


def _write(target: Path, text: str) -> None:
    """Write atomically: a reader never sees half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, suffix=".part", delete=False
    ) as part:
        part.write(text)
    os.replace(part.name, target)
