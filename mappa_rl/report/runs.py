"""Runs as a reader sees them, finished or not: what their folders hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.errors import RunError
from mappa_rl.evaluation.results import Result, load_results
from mappa_rl.evaluation.summary import Summary, read_summary
from mappa_rl.telemetry.sinks import read_metrics


@dataclass(frozen=True, slots=True)
class RunData:
    """One run: one folder, one seed. ``summary`` is None while it is unfinished."""

    folder: Path
    config: Config
    summary: Summary | None
    metrics: Sequence[Mapping[str, Any]]
    results: Mapping[tuple[str, float], Sequence[Result]]
    also: Mapping[str, Mapping[tuple[str, float], Sequence[Result]]] = field(default_factory=dict)
    """Environment of ``eval.also`` -> its results."""

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.config.run.seed

    @property
    def best(self) -> float | None:
        """The warm start's best temperature."""
        arms = self.summary.arms.values() if self.summary else ()
        return next((arm.temperature for arm in arms if arm.best), None)

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, for the steps that have it."""
        return [(row["step"], row[metric]) for row in self.metrics if row.get(metric) is not None]


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """Return the given run folders; a folder that holds runs stands for them. Raises RunError."""
    found: list[Path] = []
    for folder in folders:
        if (folder / CONFIG).is_file():
            found.append(folder)
            continue
        inside = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
        if not inside:
            raise RunError(f"{folder} holds no run: neither it nor a folder inside it has a {CONFIG}.")
        found.extend(inside)
    return list(dict.fromkeys(found))


def read_run(folder: Path) -> RunData:
    """Read everything of one run except its traces. Raises RunError, ConfigError."""
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} is not a run: it has no {CONFIG}.")
    config = load_config(folder / CONFIG)
    return RunData(
        folder=folder,
        config=config,
        summary=read_summary(folder),
        metrics=read_metrics(folder),
        results=load_results(folder),
        also={env: load_results(folder, env) for env in config.eval.also},
    )


def metric_names(runs: Sequence[RunData], prefix: str) -> list[str]:
    """Names of metrics that begin with ``prefix``, in order of appearance."""
    return list(dict.fromkeys(n for run in runs for row in run.metrics for n in row if n.startswith(prefix)))
