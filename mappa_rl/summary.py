"""``summary.json``: what a run came to, before and after, with intervals. Its schema and how it is made."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from mappa_env.grading.fair import KEYS as FAIR
from mappa_env.scripted import load_script
from mappa_rl import stats
from mappa_rl.config import Config
from mappa_rl.errors import RunError
from mappa_rl.repeats import by_problem, repeated
from mappa_rl.results import Result, load_results
from mappa_rl.stopwatch import KINDS, Stopwatch

SUMMARY = "summary.json"
PACKAGES = ("mappa", "torch", "transformers", "deepspeed", "numpy", "gymnasium", "pettingzoo", "scikit-learn")


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
    """The Fair metrics (``mappa_env.grading.fair``), where the environment has them; with ``eval.samples``
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
    work: dict[str, dict[str, float]] = {}
    """The same divided: phase -> ``generation, sandbox, coach, learner, rest`` -> seconds."""
    busy: dict[str, dict[str, float]] = {}
    """Seconds in which anything was at it, also while another thing went on: not a division."""
    shares: dict[str, float] = {}
    """Share of the wall time, from ``work``."""
    calibration: dict[str, float] = {}
    """Temperature -> success of the warm start on training tasks, from which ``best`` was chosen."""
    versions: dict[str, str]
    faults: list[Fault] = []
    config: dict[str, Any]

    def write(self, out: Path) -> Path:
        path = out / SUMMARY
        draft = path.with_name(SUMMARY + ".new")
        draft.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
        return path


def read_summary(out: Path) -> Summary | None:
    """The summary in a run's folder; None while the run is unfinished. Raises RunError for a foreign file."""
    path = out / SUMMARY
    if not path.is_file():
        return None
    try:
        return Summary.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise RunError(f"{path} is not a summary of this version: {error}") from None


def summarise(
    out: Path,
    config: Config,
    *,
    episodes: int,
    phases: Mapping[str, float],
    watch: Stopwatch | None = None,
    best: float | None = None,
    calibration: Mapping[float, float] | None = None,
    faults: Sequence[Fault] = (),
) -> Summary:
    """Make and write the summary of one run from the evaluations in its folder.

    ``best`` is the warm start's best temperature. Raises RunError where before and after do not pair up.
    """
    found = load_results(out)
    paired = [t for phase, t in found if phase == "before" and ("after", t) in found]
    arms, samples = {}, config.eval.samples
    for temperature in sorted(paired, reverse=True):
        before, after = found["before", temperature], found["after", temperature]
        if temperature in config.eval.temperatures:
            arms[f"{config.env.id} T={temperature}"] = compare(before, after, samples=samples)
        if temperature == best:
            arms[f"{config.env.id} best T={temperature}"] = compare(before, after, best=True, samples=samples)
    summary = Summary(
        arms=arms,
        seeds=[config.run.seed],
        episodes=episodes,
        wall_seconds=sum(phases.values()),
        phases=dict(phases),
        work=plain(watch.seconds) if watch else {},
        busy=plain(watch.busy) if watch else {},
        shares=watch.shares() if watch else {},
        calibration={str(t): rate for t, rate in (calibration or {}).items()},
        versions=versions(),
        faults=list(faults),
        config=config.model_dump(mode="json"),
    )
    summary.write(out)
    return summary


def compare(
    before: Sequence[Result], after: Sequence[Result], *, best: bool = False, samples: int = 1
) -> Arm:
    """The arm of paired rows, of one run or several; the bootstrap of the difference draws within seeds.

    With ``samples`` episodes per task all intervals are over tasks, and pass@k and majorities are measured.
    """
    first = {(row.run_seed, row.index): row for row in before}
    second = {(row.run_seed, row.index): row for row in after}
    if first.keys() != second.keys() or len(first) != len(before) or len(second) != len(after):
        raise RunError(
            f"evaluations do not pair up: {len(before)} episodes before, {len(after)} after, "
            f"{len(first.keys() & second.keys())} in common. Evaluate both with the same tasks and seeds."
        )
    pairs = sorted(first)
    for pair in pairs:
        if first[pair].task_id != second[pair].task_id:
            raise RunError(
                f"evaluations do not pair up: episode {pair[1]} of seed {pair[0]} is on task "
                f"{first[pair].task_id!r} before and {second[pair].task_id!r} after."
            )
    n, old, new = len(pairs), [first[p].success for p in pairs], [second[p].success for p in pairs]
    seeds = [seed for seed, _ in pairs]
    problems = [(seed, first[seed, index].task_id) for seed, index in pairs]

    def rate(won: Sequence[bool]) -> Interval:
        if samples == 1:
            return _interval(stats.wilson(sum(won), n), n)
        return _interval(stats.mean_ci(won, problems=problems, groups=seeds), n)

    measures = dict(_measures([(first[pair], second[pair]) for pair in pairs], samples))
    if samples > 1:
        measures |= _repeated(before, after)
    return Arm(
        temperature=before[0].temperature,
        best=best,
        before=rate(old),
        after=rate(new),
        delta=_interval(stats.paired_delta(old, new, problems=problems, groups=seeds), n),
        measures=measures,
    )


def _repeated(before: Sequence[Result], after: Sequence[Result]) -> dict[str, Measure]:
    """pass@k and majorities; ``n`` counts episodes, intervals are over tasks."""
    old, new = repeated(before), repeated(after)
    seeds = [seed for seed, _ in by_problem(before)]
    return {
        name: Measure(
            before=_interval(stats.mean_ci(old[name], groups=seeds), len(before)),
            after=_interval(stats.mean_ci(new[name], groups=seeds), len(before)),
            delta=_interval(stats.paired_delta(old[name], new[name], groups=seeds), len(before)),
        )
        for name in old
        if name in new
    }


def _measures(pairs: Sequence[tuple[Result, Result]], samples: int) -> Iterator[tuple[str, Measure]]:
    """The Fair metrics of the episodes that have them on both sides: failed runs have them too."""
    for key in FAIR:
        both = [(a, b) for a, b in pairs if key in a.metrics and key in b.metrics]
        if not both:
            continue
        old, new = [a.metrics[key] for a, _ in both], [b.metrics[key] for _, b in both]
        seeds, n = [a.run_seed for a, _ in both], len(both)
        problems = [(a.run_seed, a.task_id) for a, _ in both]
        tasks = problems if samples > 1 else None
        yield (
            key,
            Measure(
                before=_interval(stats.mean_ci(old, groups=seeds, problems=tasks), n),
                after=_interval(stats.mean_ci(new, groups=seeds, problems=tasks), n),
                delta=_interval(stats.paired_delta(old, new, problems=problems, groups=seeds), n),
            ),
        )


def plain(cells: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Phase -> kind -> seconds with the kinds in their order."""
    return {phase: {kind: spent[kind] for kind in KINDS if kind in spent} for phase, spent in cells.items()}


def demonstrated_faults(script: str, topics: Iterable[str]) -> list[Fault]:
    """What the card's faulty scripted team does wrong on ``topics``: first its habits, then its slips."""
    _, plan = load_script(script)
    shown = set(topics)
    habits = [
        Fault(topic=topic, role=role, fault=fault, probability=probability)
        for (topic, role), (fault, probability) in plan.usual.items()
        if topic in shown
    ]
    slips = [Fault(topic="*", role=r, fault="any", probability=p) for r, p in plan.rates.items()]
    return habits + slips


def versions() -> dict[str, str]:
    """Python and the packages that a result may depend on; ``-`` for one that is not installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "-"
    return found


def _interval(found: stats.Interval, n: int) -> Interval:
    return Interval(mean=found.mean, low=found.low, high=found.high, n=n)
