"""The summary of one run, made from the evaluations in its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mappa_rl.config import Config
from mappa_rl.evaluation.arms import compare
from mappa_rl.evaluation.calibration import Calibration
from mappa_rl.evaluation.results import Result, load_results
from mappa_rl.evaluation.summary import Arm, Fault, Summary
from mappa_rl.evaluation.versions import versions
from mappa_rl.telemetry.progress import Progress
from mappa_rl.telemetry.stopwatch import KINDS, fractions
from mappa_rl.telemetry.times import Times, times_of


def summarise(
    out: Path,
    config: Config,
    *,
    episodes: int,
    progress: Progress,
    times: Times | None = None,
    calibration: Calibration | None = None,
    faults: Sequence[Fault] = (),
) -> Summary:
    """Write and return the summary of one run, from the evaluations in its folder.

    ``progress`` followed its phases; ``times``: those of all its sessions, None: it had one. Raises RunError
    if the episodes before and after do not pair up.
    """
    calibration, times = calibration or Calibration(), times or times_of(progress)
    arms = _arms(config.env.id, load_results(out), config, calibration.best)
    for env in config.eval.also:
        arms |= _arms(env, load_results(out, env), config, calibration.best)
    summary = Summary(
        arms=arms,
        seeds=[config.run.seed],
        episodes=episodes,
        wall_seconds=sum(times.phases.values()),
        phases=times.phases,
        paces=progress.paces,
        work=_ordered(times.work),
        busy=_ordered(times.busy),
        fractions=fractions(times.work),
        calibration={str(t): rate for t, rate in calibration.rates.items()},
        versions=versions(),
        faults=list(faults),
        config=config.model_dump(mode="json"),
    )
    summary.write(out)
    return summary


def _arms(
    env: str, found: Mapping[tuple[str, float], Sequence[Result]], config: Config, best: float | None
) -> dict[str, Arm]:
    """Before and after on ``env``, at every temperature that both have."""
    paired = [t for phase, t in found if phase == "before" and ("after", t) in found]
    arms, samples = dict[str, Arm](), config.eval.group_size
    for temperature in sorted(paired, reverse=True):
        before, after = found["before", temperature], found["after", temperature]
        if temperature in config.eval.temperatures:
            arms[f"{env} T={temperature}"] = compare(before, after, samples=samples)
        if temperature == best:
            arms[f"{env} best T={temperature}"] = compare(before, after, best=True, samples=samples)
    return arms


def _ordered(cells: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Phase -> kind -> seconds, with the kinds in their usual order."""
    return {phase: {kind: spent[kind] for kind in KINDS if kind in spent} for phase, spent in cells.items()}
