"""The training episodes of a run as traces: ``traces/train/step-000001.jsonl.gz`` and so on.

A thread writes a step's episodes while the learner works on them, then what it made of their actions. A
killed step leaves a file that ends early; the step is played again after a resume and its file starts again,
so every episode is on record once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mappa_env.cards import Card
from mappa_env.trace.appending import Appender
from mappa_env.trace.source import described
from mappa_env.trace.traces import FOLDER, TRAIN
from mappa_env.types import Trajectory
from mappa_rl.algos import Advantages
from mappa_rl.rollout.learned import Earned, learned
from mappa_rl.training.background import Background
from mappa_rl.types import Floats, Rollout, Sample

WAITING = 16
"""Jobs that may wait for the thread: a step has one, one per policy, and one that ends it."""
_NAME = re.compile(r"step-(\d{6,})\.jsonl\.gz(?:\.packing)?")


class StepTraces:
    """Writes the traces of every ``every``-th step of the run in ``out``; 0: of none.

    ``resumed_at``: the last step that the resumed state includes; the files of later ones go. An error of the
    thread surfaces in the next call.
    """

    def __init__(self, out: Path, card: Card, every: int, *, resumed_at: int = 0) -> None:
        self._folder, self._card, self._every = out / FOLDER / TRAIN, described(card), every
        self._step: _Step | None = None
        self._background: Background | None = None
        for path in self._folder.glob("step-*"):
            found = _NAME.fullmatch(path.name)
            if found is not None and int(found[1]) > resumed_at:
                path.unlink()

    def __enter__(self) -> StepTraces:
        return self

    def __exit__(self, *_: object) -> None:
        background, self._background = self._background, None
        if background is not None:
            background.close()

    def begin(self, step: int, rollouts: Sequence[Rollout], trajectories: Sequence[Trajectory]) -> None:
        """Write the episodes of a step: ``rollouts`` and ``trajectories`` are in the same order."""
        self._step = None
        if not self._every or step % self._every:
            return
        path = self._folder / f"step-{step:06d}.jsonl.gz"
        about = {"phase": TRAIN, "step": step}
        writer = Appender(path, card=self._card, about=about, writer=f"step{step}")
        self._step = begun = _Step(writer, rollouts, trajectories)
        self._submit(begun.write)

    def weighed(self, samples: Sequence[Sample], found: Advantages, advantages: Sequence[Floats]) -> None:
        """Take in what one policy learned from; its loss weighs ``advantages`` [T] of each sample."""
        if (step := self._step) is not None:
            self._submit(lambda: step.take(samples, found, advantages))

    def end(self) -> None:
        """The step is learned from: write what was made of its actions, and compress its file."""
        if self._step is not None:
            self._submit(self._step.finish)
            self._step = None

    def settle(self) -> None:
        """Wait until everything is written. Raises OSError if something could not be."""
        if self._background is not None:
            self._background.drain()

    def _submit(self, job: Callable[[], None]) -> None:
        if self._background is None:
            self._background = Background("traces", WAITING)
        self._background.submit(job)


class _Step:
    """One step's file. All methods run on the thread that writes."""

    def __init__(
        self, writer: Appender, rollouts: Sequence[Rollout], trajectories: Sequence[Trajectory]
    ) -> None:
        self._writer, self._rollouts, self._trajectories = writer, rollouts, trajectories
        self._keys: list[str] = []
        self._earned: dict[int, Earned] = {}

    def write(self) -> None:
        self._writer.path.unlink(missing_ok=True)  # of a step that was killed
        self._keys = [self._writer.append(trajectory) for trajectory in self._trajectories]

    def take(self, samples: Sequence[Sample], found: Advantages, advantages: Sequence[Floats]) -> None:
        for i, sample in enumerate(samples):
            for span in sample.spans:
                part = slice(span.start, span.end)
                if not found.weights[i][part].any():
                    continue  # it was not trained on
                returns = None if found.returns is None else _mean(found.returns[i][part])
                earned = self._earned.setdefault(sample.episode, {})
                earned[span.step] = (returns, _mean(advantages[i][part]))

    def finish(self) -> None:
        for episode, (key, rollout) in enumerate(zip(self._keys, self._rollouts, strict=True)):
            self._writer.learned(key, learned(rollout, self._earned.get(episode, {})))
        self._writer.close()


def _mean(values: Floats) -> float:
    return float(np.mean(values, dtype=np.float64))
