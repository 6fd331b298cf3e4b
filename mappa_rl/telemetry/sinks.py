"""Where the numbers of a run go: ``metrics.jsonl`` always, TensorBoard, W&B and Weave as the config says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any

from mappa_env.json_and_yaml import check_type, read_json
from mappa_env.types import Trajectory
from mappa_rl.atomic import write_text
from mappa_rl.config import Config
from mappa_rl.errors import RunError
from mappa_rl.telemetry.tracking import Wandb, Weave

METRICS = "metrics.jsonl"


class Metrics:
    """One JSON object per training step, appended and flushed at once.

    ``resumed_at`` is the last step that the resumed state includes: later lines, and a line that a kill cut
    short, are dropped, so that an interrupted and resumed run leaves what an uninterrupted one does. None
    starts a new file. Numbers that are not finite are written as ``null``, since JSON cannot express them.
    """

    def __init__(self, out: Path, *, tensorboard: bool, resumed_at: int | None = None) -> None:
        self.path = out / METRICS
        kept = [] if resumed_at is None else [row for row in read_metrics(out) if row["step"] <= resumed_at]
        write_text(self.path, "".join(_line(row) for row in kept))
        self._file = self.path.open("a", encoding="utf-8")
        self._board = _board(out / "tensorboard", resumed_at) if tensorboard else None

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write one step's numbers. Names are ``group/name``, as in ``reward/solver_0``."""
        self._file.write(_line({"step": step, **{name: float(value) for name, value in values.items()}}))
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, float(value), step)
            self._board.flush()

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


class Sinks:
    """All sinks of a run. ``metrics`` is its own record; the others are copies."""

    def __init__(self, metrics: Metrics, wandb: Wandb | None = None, weave: Weave | None = None) -> None:
        self._metrics, self._wandb, self._weave = metrics, wandb, weave

    def __enter__(self) -> Sinks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sink in (self._metrics, self._wandb, self._weave):
            if sink is not None:
                sink.close()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """One step's numbers."""
        self._metrics.log(step, values)
        if self._wandb is not None:
            self._wandb.log(step, values)

    def episodes(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """One step's episodes, for sinks that show them."""
        if self._weave is not None:
            self._weave.episodes(step, trajectories)


def sinks_of(
    config: Config, out: Path, note: Callable[[str], None], *, resumed_at: int | None = None
) -> Sinks:
    """The sinks that ``config.run`` names, for the run in ``out``; ``note`` gets one message if one fails.

    Raises RunError if a package or a key is missing.
    """
    run = config.run
    wandb = Wandb(run.wandb, out, config.model_dump(mode="json"), note) if run.wandb else None
    weave = Weave(run.weave, note) if run.weave else None
    return Sinks(Metrics(out, resumed_at=resumed_at, tensorboard=run.tensorboard), wandb, weave)


def read_metrics(out: Path) -> list[dict[str, Any]]:
    """The rows of a run's ``metrics.jsonl`` so far, without a last line that was cut short.

    A row holds its ``step`` and numbers; None is a number that was not finite.

    Raises RunError for a damaged file.
    """
    path = out / METRICS
    if not path.is_file():
        return []
    lines = path.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last newline is cut short
        try:
            row = read_json(line)
        except ValueError as error:
            raise RunError(f"{path}, line {number} is not JSON ({error}): remove it to continue.") from None
        if not isinstance(row, dict) or type(row.get("step")) is not int:
            raise RunError(f"{path}, line {number} has no 'step': remove it to continue.")
        try:
            for name, value in row.items():
                check_type(f"{name!r:.60}", value, (int, float, NoneType))
        except ValueError as error:
            raise RunError(f"{path}, line {number} is damaged ({error}): remove it to continue.") from None
        rows.append(row)
    return rows


def _line(row: Mapping[str, Any]) -> str:
    finite = {k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in row.items()}
    return json.dumps(finite, allow_nan=False) + "\n"


def _board(folder: Path, resumed_at: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise RunError(
            f"TensorBoard files cannot be written ({error}): `pip install tensorboard`, "
            "or set run.tensorboard=false."
        ) from None
    purge = None if resumed_at is None else resumed_at + 1
    return SummaryWriter(str(folder), purge_step=purge)
