"""What a run's folder says beside its traces: metrics, phases, the card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mappa_env.errors import DataError
from mappa_env.json_and_yaml import read_json, read_yaml
from mappa_env.viewer.page import REPORT

METRICS, SUMMARY, CONFIG = "metrics.jsonl", "summary.json", "config.yaml"


def run_folder(path: Path) -> Path | None:
    """The run that ``path`` is, or whose traces it is; None: it belongs to no run."""
    for folder in (path, path.parent, path.parent.parent):
        if (folder / CONFIG).is_file():
            return folder
    return None


def metrics(folder: Path) -> list[dict[str, Any]]:
    """One object per training step; empty without any. Leaves out a line that is still being written."""
    path = folder / METRICS
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    try:
        rows = [read_json(line) for line in lines]
    except ValueError as error:
        raise DataError(f"{path} has a line that is not JSON: {error}.") from None
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("step"), int)]


def phases(folder: Path) -> dict[str, float]:
    """Phase -> seconds of a finished run; empty for one that still runs."""
    path = folder / SUMMARY
    if not path.is_file():
        return {}
    try:
        found = read_json(path.read_bytes()).get("phases", {})
    except (ValueError, AttributeError) as error:
        raise DataError(f"{path} is not the summary of a run: {error}.") from None
    return {str(name): float(spent) for name, spent in found.items() if isinstance(spent, (int, float))}


def report(folder: Path | None) -> Path | None:
    """The report of a run; None before it is written."""
    path = None if folder is None else folder / REPORT
    return path if path is not None and path.is_file() else None


def env_id(folder: Path) -> str | None:
    """``env.id`` of the run: an id or a card's folder; None if its config names none."""
    try:
        config = read_yaml((folder / CONFIG).read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / CONFIG} is not the config of a run: {error}.") from None
    env = config.get("env") if isinstance(config, dict) else None
    found = env.get("id") if isinstance(env, dict) else None
    return found if isinstance(found, str) else None
