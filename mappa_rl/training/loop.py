"""The training steps of a run: learn, validate, log, save, evaluate; and save once more when interrupted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.types import Trajectory
from mappa_rl.coach.bias import CoachBias
from mappa_rl.config import Config
from mappa_rl.errors import CheckpointError
from mappa_rl.evaluation.held_out import HeldOut
from mappa_rl.rollout.batches import Batches
from mappa_rl.rollout.records import Recorded, write_step
from mappa_rl.rollout.types import RolloutWorker
from mappa_rl.stopping import Stopping
from mappa_rl.telemetry.progress import Progress
from mappa_rl.telemetry.sinks import Sinks
from mappa_rl.training.build import Parts
from mappa_rl.training.saver import Saver
from mappa_rl.training.step import Listeners, train_step
from mappa_rl.training.traces import StepTraces


@dataclass(slots=True)
class Loop:
    """The steps of the run in ``out``. ``validating`` plays the validation tasks."""

    config: Config
    out: Path
    parts: Parts
    batches: Batches
    bias: CoachBias
    evaluation: HeldOut
    validating: RolloutWorker
    sinks: Sinks
    progress: Progress
    saver: Saver
    stopping: Stopping
    traces: StepTraces

    def run(self, state: Mapping[str, Any]) -> None:
        """All steps after that of ``state``, a checkpoint's, or from the first if it is empty.

        SIGINT, SIGTERM and failures end the run with a checkpoint of the last complete step, unless weights
        have changed since, and are raised then.
        """
        done, unlogged = state.get("step", 0), state.get("unlogged")
        self.saver.mark(done, unlogged, saved=True)
        try:
            self._resume(done, unlogged)
            for step in range(done + 1, self.config.run.steps + 1):
                self._complete(step, self._learn(step))
        except KeyboardInterrupt:
            self.stopping.hold(patient=True)
            done_so_far = self._rescue()
            with suppress(SystemExit, OSError):  # Ctrl-C also ends what the output is piped to
                self.progress.note(f"interrupted: {done_so_far}")
            raise
        except CheckpointError:
            raise
        except Exception:  # memory that ran out, an engine or a coach that failed for good
            self.stopping.hold(patient=True)
            self.progress.note(f"stopped: {self._rescue()}")
            raise

    def _rescue(self) -> str:
        with suppress(OSError):  # a trace that cannot be written is reported when the traces are closed
            self.traces.settle()
        return self.saver.rescue()

    def _resume(self, done: int, unlogged: Mapping[str, float] | None) -> None:
        """What was left to do after the last step."""
        if unlogged is not None:
            self._complete(done, unlogged)
        elif done:
            self._measure(done)
        self.progress.phase("training", self.config.run.steps, "steps", done)

    def _learn(self, step: int) -> dict[str, float]:
        """Play and learn; a signal during the update waits until the step can be saved."""

        def record(recorded: Recorded, trajectories: Sequence[Trajectory]) -> None:
            self.stopping.hold()  # from here on weights change
            if self.config.run.record_rollouts:
                write_step(self.out, recorded)
            self.traces.begin(step, recorded.rollouts, trajectories)
            self.sinks.episodes(recorded.step, trajectories)

        values = train_step(
            self.config,
            self.parts,
            self.batches,
            step,
            self.progress,
            self.bias,
            Listeners(record, self.traces.weighed),
        )
        self.traces.end()
        self.saver.mark(step, values)
        self.stopping.release()
        return values

    def _complete(self, step: int, values: Mapping[str, float]) -> None:
        """Validate and save if it is time, log, and evaluate if it is time."""
        every = self.config.run.checkpoint_every
        due = step == self.config.run.steps or bool(every and step % every == 0)
        score = self.evaluation.validate(self.validating) if due else None
        values = {**values} if score is None else {**values, "validation": score}
        self.sinks.log(step, values)
        self.progress.update(step, values)
        if due:
            self.traces.settle()  # what a checkpoint includes is on record
            self.stopping.hold(patient=True)
        self.saver.mark(step, score=score)
        if due:
            self.saver.save()
            self.stopping.release()
        self._measure(step)

    def _measure(self, step: int) -> None:
        every = self.config.eval.every
        if every and step % every == 0:
            self.evaluation.measure(f"step-{step}", self.config.eval.temperatures)
            self.progress.phase("training", self.config.run.steps, "steps", step)
