"""Where the wall time of a run went, in all the sessions that worked on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from mappa_rl.atomic import write_text
from mappa_rl.errors import RunError
from mappa_rl.telemetry.progress import Progress

FILE = "times.json"
Split = Mapping[str, Mapping[str, float]]
"""Phase -> kind of work -> seconds."""


class Times(BaseModel):
    """Wall seconds by phase, and the same divided by kinds of work: see ``Stopwatch``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phases: dict[str, float] = {}
    work: dict[str, dict[str, float]] = {}
    busy: dict[str, dict[str, float]] = {}

    def plus(self, other: Times) -> Times:
        """The times of two sessions together."""
        return Times(
            phases=_sum(self.phases, other.phases),
            work=_sums(self.work, other.work),
            busy=_sums(self.busy, other.busy),
        )


def times_of(progress: Progress) -> Times:
    """Of one session, with the phase under way."""
    phases, watch = progress.spent(), progress.watch
    return Times(phases=phases, work=_sums(watch.seconds, {}), busy=_sums(watch.busy, {}))


class KeptTimes:
    """The times of the run in the folder ``out``: of the sessions before, and of this one's ``progress``.

    A session that is killed counts up to its last ``keep``. Raises RunError if the file is not readable.
    """

    def __init__(self, out: Path, progress: Progress) -> None:
        self._path, self._progress = out / FILE, progress
        self._earlier = _read(self._path)

    def total(self) -> Times:
        """Of all sessions, with the phase under way."""
        return self._earlier.plus(times_of(self._progress))

    def keep(self) -> None:
        """Write them down for the session that goes on."""
        write_text(self._path, self.total().model_dump_json() + "\n")


def _read(path: Path) -> Times:
    if not path.is_file():
        return Times()
    try:
        return Times.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ValidationError) as error:
        raise RunError(
            f"{path} does not hold the times of a run: {error}. Remove it, and the time of earlier sessions "
            "no longer counts."
        ) from None


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


def _sums(one: Split, other: Split) -> dict[str, dict[str, float]]:
    return {name: _sum(one.get(name, {}), other.get(name, {})) for name in {**one, **other}}
