"""``summary.json``: what a run came to, before and after, with intervals. Its schema and how it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mappa_rl.atomic import write_text
from mappa_rl.errors import RunError
from mappa_rl.telemetry.pace import Pace

SUMMARY = "summary.json"


class Record(BaseModel):
    """Base of the schema: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Interval(Record):
    """A mean over ``n`` episodes with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int


class Measure(Record):
    """A quality before and after, over the episodes that have it, and the paired difference."""

    before: Interval
    after: Interval
    delta: Interval


class Arm(Record):
    """Success before and after training at one temperature, on the same tasks and seeds."""

    temperature: float
    best: bool = False
    """This temperature is the warm start's own best one (found on training tasks)."""
    before: Interval
    after: Interval
    delta: Interval
    """Mean of the paired differences after - before."""
    measures: dict[str, Measure] = {}
    """The Fair metrics (``mappa_env.grading.fair``), where the environment has them; with ``eval.group_size``
    pass@k and the majority's success."""


class Fault(Record):
    """A habit of the demonstrated team: how often ``role`` commits ``fault`` on ``topic``.

    ``topic`` ``"*"`` with ``fault`` ``"any"`` is the role's rate of random faults where no habit strikes.
    """

    topic: str
    role: str
    fault: str
    probability: float


class Summary(Record):
    """The whole file."""

    arms: dict[str, Arm]
    """``"<env id> T=<temperature>"`` and ``"<env id> best T=<temperature>"``."""
    seeds: list[int]
    episodes: int
    """Training episodes, of all seeds together."""
    wall_seconds: float
    phases: dict[str, float]
    """Wall seconds by phase."""
    paces: dict[str, Pace] = {}
    """The same of one run, divided by units of work: episodes, or steps."""
    work: dict[str, dict[str, float]] = {}
    """The same divided: phase -> ``generation, sandbox, coach, learner, rest`` -> seconds."""
    busy: dict[str, dict[str, float]] = {}
    """Seconds in which anything was at it, also while another thing went on: not a division."""
    fractions: dict[str, float] = {}
    """Fractions of the wall time, from ``work``."""
    calibration: dict[str, float] = {}
    """Temperature -> success of the warm start on training tasks, from which ``best`` was chosen."""
    versions: dict[str, str]
    faults: list[Fault] = []
    config: dict[str, Any]

    def write(self, out: Path) -> Path:
        """Write ``summary.json`` into the folder ``out`` and return its path."""
        path = out / SUMMARY
        write_text(path, self.model_dump_json(indent=2) + "\n")
        return path


def read_summary(out: Path) -> Summary | None:
    """The summary in a run's folder; None while the run is unfinished. Raises RunError for a foreign file."""
    path = out / SUMMARY
    if not path.is_file():
        return None
    try:
        return Summary.model_validate_json(path.read_bytes())
    except ValidationError as error:
        if any(each["loc"] == ("shares",) for each in error.errors()):
            raise RunError(
                f"{path} has 'shares', now called 'fractions': report the run with "
                "the version that trained it."
            ) from None
        raise RunError(f"{path} is not a summary of this version: {error}") from None
