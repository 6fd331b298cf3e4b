"""What a run does about its coach's bias: it corrects rewards, looks for bias, and judges anchors anew."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from mappa_env.coach.bias import BiasMonitor, Finding
from mappa_env.coach.drift import Drift, drifts
from mappa_env.coach.strata import Correction, Stratum
from mappa_env.shaping import make_shaping
from mappa_env.types import Trajectory
from mappa_rl.anchors import FILE, Anchors
from mappa_rl.config import Config
from mappa_rl.progress import Progress
from mappa_rl.rollout import Collected


class CoachBias:
    """Follows a run step by step. ``state`` is what a checkpoint keeps of it, as JSON."""

    def __init__(
        self, config: Config, out: Path, progress: Progress, state: Mapping[str, Any] | None = None
    ) -> None:
        """``state``: that of a checkpoint; None: from the start."""
        self._settings, self._progress = config.bias, progress
        self._monitor = BiasMonitor(self._settings.window)
        self._shaping = make_shaping(config.env.shaping)
        self._correction: Correction | None = None
        if self._settings.correct != "off":
            self._correction = Correction(
                spread=self._settings.correct == "mean_std",
                kappa=self._settings.kappa,
                memory=self._settings.window,
            )
        self._looks = 0
        self._anchors: Anchors | None = None
        self._open = ExitStack()
        if count := self._settings.anchors:
            if not (out / FILE).is_file():
                progress.phase("anchors", count, "episodes")
            self._anchors = self._open.enter_context(
                Anchors(
                    out / FILE, config.env.id, config.env.options("train"), count=count,
                    workers=config.rollout.workers, on_done=progress.update,
                )
            )  # fmt: skip
        if state is not None:
            self._monitor.load(state["monitor"])
            self._looks = state["anchor_looks"]
            if self._correction is not None:
                self._correction.load(state["correction"])

    def __enter__(self) -> CoachBias:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def step(self, step: int, collected: Collected) -> dict[str, float]:
        """Take one step's episodes in, correct the rewards of their rollouts, and return metrics."""
        means: defaultdict[str, list[float]] = defaultdict(list)
        for trajectory in collected.trajectories:
            self._monitor.add(trajectory)
        for (family, role, _), score in _scores(collected.trajectories):
            means[f"score/{family}/{role}"].append(score)
        if self._correction is not None:
            self._correct(collected, self._correction, means)
        values = {name: sum(found) / len(found) for name, found in means.items()}
        if self._settings.look_every and step % self._settings.look_every == 0:
            values |= self._look(step)
        if self._anchors is not None and step % self._settings.anchors_every == 0:
            values |= self._judge_anew(step, self._anchors)
        return values

    def state(self) -> dict[str, Any]:
        return {
            "monitor": self._monitor.state(),
            "correction": self._correction.state() if self._correction else None,
            "anchor_looks": self._looks,
        }

    def _correct(
        self, collected: Collected, correction: Correction, means: defaultdict[str, list[float]]
    ) -> None:
        """Pay the shaping's credit for corrected scores; the trajectories keep the raw ones."""
        corrected = iter(correction(_scores(collected.trajectories)))
        for index, trajectory in enumerate(collected.trajectories):
            actions = []
            for action in trajectory.actions:
                if action.verdict.status == "ok" and action.verdict.score is not None:
                    verdict = dataclasses.replace(action.verdict, score=next(corrected))
                    action = dataclasses.replace(action, verdict=verdict)
                    means[f"score_corrected/{action.stratum[0]}/{action.role}"].append(verdict.score or 0.0)
                actions.append(action)
            rollout = collected.rollouts[index]
            if rollout.ended != "over":
                continue
            credit = self._shaping.credit(dataclasses.replace(trajectory, actions=tuple(actions)))
            turns = []
            for turn, (reward, valid) in zip(rollout.turns, credit, strict=True):
                turns.append(dataclasses.replace(turn, reward=reward, valid=valid))
                if valid:
                    means["corrected/" + "/".join(map(str, turn.stratum))].append(reward)
            collected.rollouts[index] = dataclasses.replace(rollout, turns=tuple(turns))

    def _look(self, step: int) -> dict[str, float]:
        found = self._monitor.look()
        values = {
            "bias/trajectories": float(len(self._monitor)),
            "bias/alarms": float(sum(finding.alarm for finding in found)),
        }
        for stratum in self._monitor.strata:
            name, running = "/".join(map(str, stratum)), self._monitor.strata[stratum]
            values |= {f"bias_mean/{name}": running.mean, f"bias_sd/{name}": math.sqrt(running.variance)}
        for finding in found:
            name = f"{finding.kind}/{finding.family}"
            values |= {f"bias/{name}": finding.effect, f"bias_p/{name}": finding.p}
            values |= {f"bias_low/{name}": finding.low, f"bias_high/{name}": finding.high}
            if finding.alarm:
                self._progress.note(f"step {step}: {told(finding, len(self._monitor))}")
        return values

    def _judge_anew(self, step: int, anchors: Anchors) -> dict[str, float]:
        self._looks += 1
        with self._progress.watch.at("coach"):
            now = anchors.judge()
        statuses = [verdict.status for verdicts in now for verdict in verdicts]
        not_ok = sum(status != "ok" for status in statuses) / len(statuses)
        values = {"anchors/not_ok": not_ok}
        found = drifts(anchors.pairs(now), self._looks)
        for drift in found:
            name = "/".join(map(str, drift.stratum or ("all",)))
            values[f"anchors/{name}"] = drift.mean
            values |= {f"anchors_low/{name}": drift.low, f"anchors_high/{name}": drift.high}
            if drift.alarm:
                self._progress.note(f"step {step}: {drifted(drift)}")
        return values | {"anchors/alarms": float(sum(drift.alarm for drift in found))}


def told(finding: Finding, trajectories: int) -> str:
    """An alarm in words."""
    what = {
        "offset": f"scores {finding.family} {finding.effect:+.2f} points against the rest at equal outcome",
        "slope": f"raises scores of {finding.family} from failure to success by {finding.effect:+.2f} points "
        "against the rest",
    }[finding.kind]
    return (
        f"the coach {what} [{finding.low:+.2f}, {finding.high:+.2f}] (p {finding.p:.2g}; "
        f"{finding.trajectories:,} of {trajectories:,} trajectories)"
    )


def drifted(drift: Drift) -> str:
    """An alarm in words."""
    where = "/".join(map(str, drift.stratum)) if drift.stratum else "all actions"
    return (
        f"the coach has drifted: anchors of {where} get {drift.mean:+.2f} points [{drift.low:+.2f}, "
        f"{drift.high:+.2f}] against their first scores ({drift.episodes} episodes)"
    )


def _scores(trajectories: Sequence[Trajectory]) -> list[tuple[Stratum, float]]:
    """Strata and scores of all actions whose verdict is ok, in order."""
    return [
        (action.stratum, action.verdict.score)
        for trajectory in trajectories
        for action in trajectory.actions
        if action.verdict.status == "ok" and action.verdict.score is not None
    ]
