"""What a run does about its coach's bias: correct rewards, test for bias, and judge the anchors again."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from mappa_env.coach.bias.drift import Drift, drifts
from mappa_env.coach.bias.monitor import BiasFinding, BiasMonitor
from mappa_env.coach.bias.strata import BiasCorrection
from mappa_env.shaping import Shaping, make_shaping
from mappa_env.types import ActionRecord, Trajectory
from mappa_rl.coach.anchors import FILE, Anchors
from mappa_rl.coach.bias_state import BiasState
from mappa_rl.config import Config
from mappa_rl.rollout.types import Collected
from mappa_rl.telemetry.progress import Progress
from mappa_rl.types import Rollout


class CoachBias:
    """Follows a run step by step. Close it at the end of the run."""

    def __init__(self, config: Config, out: Path, progress: Progress, state: BiasState | None = None) -> None:
        """``state`` of a checkpoint; None: from the start. Raises ConfigError."""
        self._settings, self._progress = config.bias, progress
        self._monitor = BiasMonitor(self._settings.window)
        self._shaping = make_shaping(config.env.shaping)
        self._correction: BiasCorrection | None = None
        if self._settings.correct != "off":
            self._correction = BiasCorrection(
                spread=self._settings.correct == "mean_std",
                memory=self._settings.window,
            )
        self._anchor_tests = 0
        self._anchors: Anchors | None = None
        self._open = ExitStack()
        if count := self._settings.anchors:
            if not (out / FILE).is_file():
                progress.phase("anchors", count, "episodes")
            self._anchors = self._open.enter_context(
                Anchors(
                    out / FILE,
                    config.env.id,
                    config.env.options("train"),
                    count=count,
                    workers=config.rollout.workers,
                    on_done=progress.update,
                )
            )
        if state is not None:
            self._monitor.load(state.monitor)
            self._anchor_tests = state.anchor_tests
            if self._correction is not None and state.correction is not None:
                self._correction.load(state.correction)

    def __enter__(self) -> CoachBias:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def step(self, step: int, collected: Collected) -> tuple[Collected, dict[str, float]]:
        """Take in the episodes of a step, in order.

        Returns them with the rewards to train on (of bias-corrected scores, if ``bias.correct`` asks for it),
        and metrics. The trajectories keep the raw scores; ``collected`` itself is unchanged.
        """
        means: defaultdict[str, list[float]] = defaultdict(list)
        for trajectory in collected.trajectories:
            self._monitor.add(trajectory)
            for action, score in _scored(trajectory.actions):
                means[f"score/{action.stratum[0]}/{action.role}"].append(score)
        if self._correction is not None:
            collected = self._corrected(collected, self._correction, means)
        values = {name: sum(found) / len(found) for name, found in means.items()}
        if self._settings.test_every and step % self._settings.test_every == 0:
            values |= self._test(step)
        if self._anchors is not None and step % self._settings.anchors_every == 0:
            values |= self._judge_anchors(step, self._anchors)
        return collected, values

    def state(self) -> BiasState:
        """What a checkpoint keeps."""
        correction = self._correction.state() if self._correction else None
        return BiasState(self._monitor.state(), correction, self._anchor_tests)

    def _corrected(
        self, collected: Collected, correction: BiasCorrection, means: defaultdict[str, list[float]]
    ) -> Collected:
        """``collected`` with the rewards of corrected scores. Adds metrics to ``means``."""
        trajectories = correct_scores(collected.trajectories, correction)
        rollouts = []
        for rollout, trajectory in zip(collected.rollouts, trajectories, strict=True):
            for action, score in _scored(trajectory.actions):
                means[f"score_corrected/{action.stratum[0]}/{action.role}"].append(score)
            if rollout.ended == "done":
                rollout = shaped(rollout, trajectory, self._shaping)
                for turn in rollout.turns:
                    if turn.valid:
                        means["corrected/" + "/".join(map(str, turn.stratum))].append(turn.reward)
            rollouts.append(rollout)
        return replace(collected, rollouts=rollouts)

    def _test(self, step: int) -> dict[str, float]:
        """Test the scores of the last trajectories for bias; report alarms."""
        findings = self._monitor.test()
        values = {
            "bias/trajectories": float(len(self._monitor)),
            "bias/alarms": float(sum(finding.alarm for finding in findings)),
        }
        for stratum in self._monitor.strata:
            name, running = "/".join(map(str, stratum)), self._monitor.strata[stratum]
            values |= {f"bias_mean/{name}": running.mean, f"bias_sd/{name}": math.sqrt(running.variance)}
        for finding in findings:
            name = f"{finding.kind}/{finding.family}"
            values |= {f"bias/{name}": finding.effect, f"bias_p/{name}": finding.p}
            values |= {f"bias_low/{name}": finding.low, f"bias_high/{name}": finding.high}
            if finding.alarm:
                self._progress.note(f"step {step}: {bias_message(finding, len(self._monitor))}")
        return values

    def _judge_anchors(self, step: int, anchors: Anchors) -> dict[str, float]:
        """Judge the anchors again and test their scores for drift; report alarms."""
        self._anchor_tests += 1
        with self._progress.watch.at("coach"):
            now = anchors.judge()
        statuses = [verdict.status for verdicts in now for verdict in verdicts]
        values = {"anchors/not_ok": sum(status != "ok" for status in statuses) / len(statuses)}
        found = drifts(anchors.pairs(now), self._anchor_tests)
        for drift in found:
            name = "/".join(map(str, drift.stratum or ("all",)))
            values[f"anchors/{name}"] = drift.mean
            values |= {f"anchors_low/{name}": drift.low, f"anchors_high/{name}": drift.high}
            if drift.alarm:
                self._progress.note(f"step {step}: {drift_message(drift)}")
        return values | {"anchors/alarms": float(sum(drift.alarm for drift in found))}


def correct_scores(trajectories: Iterable[Trajectory], correction: BiasCorrection) -> list[Trajectory]:
    """Copies of ``trajectories`` whose ok verdicts have bias-corrected scores. Updates ``correction``."""
    trajectories = list(trajectories)
    scored = [each for trajectory in trajectories for each in _scored(trajectory.actions)]
    scores = iter(correction([(action.stratum, score) for action, score in scored]))
    return [
        replace(
            trajectory,
            actions=tuple(
                replace(action, verdict=replace(action.verdict, score=next(scores)))
                if action.verdict.valid_score is not None
                else action
                for action in trajectory.actions
            ),
        )
        for trajectory in trajectories
    ]


def shaped(rollout: Rollout, trajectory: Trajectory, shaping: Shaping) -> Rollout:
    """A copy of ``rollout`` with the rewards that ``shaping`` computes from ``trajectory``."""
    rewards, valid = zip(*shaping.rewards(trajectory), strict=True)
    return rollout.with_rewards(rewards, valid)


def bias_message(finding: BiasFinding, trajectories: int) -> str:
    """A bias alarm in words; ``trajectories`` is the number of those tested."""
    what = {
        "offset": f"scores {finding.family} {finding.effect:+.2f} points relative to the other families "
        "at equal outcome",
        "slope": f"raises scores of {finding.family} from failure to success by {finding.effect:+.2f} points "
        "relative to the other families",
    }[finding.kind]
    return (
        f"the coach {what} [{finding.low:+.2f}, {finding.high:+.2f}] (p {finding.p:.2g}; "
        f"{finding.trajectories:,} of {trajectories:,} trajectories)"
    )


def drift_message(drift: Drift) -> str:
    """A drift alarm in words."""
    where = "/".join(map(str, drift.stratum)) if drift.stratum else "all actions"
    return (
        f"the coach has drifted: its scores of the anchors ({where}) changed by {drift.mean:+.2f} points "
        f"[{drift.low:+.2f}, {drift.high:+.2f}] since the start ({drift.episodes} episodes)"
    )


def _scored(actions: Iterable[ActionRecord]) -> list[tuple[ActionRecord, float]]:
    """The actions whose verdict is ok, with their scores, in order."""
    return [(action, score) for action in actions if (score := action.verdict.valid_score) is not None]
