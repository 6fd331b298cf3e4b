"""Training and evaluation from Python: what ``mappa-rl train`` and ``mappa-rl eval`` do, without printing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_rl.config import Config
from mappa_rl.config.run_folder import new_folder, next_folder
from mappa_rl.errors import RunError
from mappa_rl.evaluation.summary import Summary, read_summary


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run or evaluation: its ``folder``, with metrics, traces and checkpoints, and its summary."""

    folder: Path
    summary: Summary


def train(config: Config, out: str | Path | None = None) -> RunResult:
    """Train as ``config`` says, in ``run.processes`` processes, and write the report.

    Args:
        config: Settings, as ``load_config`` reads them.
        out: Folder of the run; must be new or empty. Default: ``run.out``, or ``runs/<environment>-<time>``.

    Raises:
        ConfigError: The checks before the run found problems; the message lists all of them.
        RunError: The folder is not empty, or the run failed.
    """
    from mappa_rl.commands.train import train_one

    if out is not None:
        config = config.with_overrides([f"run.out={str(out)!r}"])
    folder = new_folder(config, Path(config.env.id).name)
    train_one(config, folder)
    return _result(folder)


def evaluate(run: str | Path, overrides: Sequence[str] = (), checkpoint: str = "latest") -> RunResult:
    """Evaluate the run in folder ``run`` again; the result goes to ``<run>/again``, ``again-2`` and so on.

    Args:
        run: Folder of a run that has a checkpoint.
        overrides: Changed ``env``, ``eval`` and ``rollout`` settings, for example ``["eval.episodes=100"]``.
        checkpoint: ``latest``, ``best`` (by ``eval.validation_tasks``) or a step.

    Raises:
        ConfigError: An override is not allowed.
        RunError: The folder is not a run, or has no checkpoint.
        CheckpointError: The checkpoint is missing or damaged.
    """
    from mappa_rl.commands.console import one_run
    from mappa_rl.commands.eval import changed, reevaluate

    source = one_run(Path(run), "evaluate")
    folder = next_folder(source / "again")
    reevaluate(changed(source, list(overrides)), source, folder, checkpoint)
    return _result(folder)


def _result(folder: Path) -> RunResult:
    from mappa_rl.report.html import build_report

    build_report(folder)
    summary = read_summary(folder)
    if summary is None:
        raise RunError(f"{folder} has no summary: the run did not finish.")
    return RunResult(folder, summary)
