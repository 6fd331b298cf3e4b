"""Saves a run at the ends of its steps, and once more when it is interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mappa_rl.learner.checkpoint import Checkpoints, random_state
from mappa_rl.training.build import Parts

State = Callable[[], dict[str, Any]]


class Saver:
    """Knows the last point that the run can go on from: the end of a step, before anything of the next.

    ``state`` returns what a checkpoint holds besides the learners, JSON-serialisable. ``also`` is called
    after every checkpoint.
    """

    def __init__(
        self, checkpoints: Checkpoints, parts: Parts, state: State, also: Callable[[], None] | None = None
    ) -> None:
        self._checkpoints, self._state_of, self._parts = checkpoints, state, parts
        self._also = also
        self._learners = parts.learners
        self._tokenizers = {name: policy.chat.tokenizer for name, policy in parts.policies.items()}

    def mark(
        self,
        step: int,
        unlogged: Mapping[str, float] | None = None,
        *,
        score: float | None = None,
        saved: bool = False,
    ) -> None:
        """Remember the end of ``step``. ``unlogged``: its metrics, as long as they are not complete.

        ``score``: see ``Checkpoints.save``. ``saved``: a checkpoint holds it already.
        """
        self._score = score
        if unlogged is not None:
            unlogged = {name: float(value) for name, value in unlogged.items()}
        self._state = json.dumps({"step": step, "unlogged": unlogged, **self._state_of()})
        self._random, self._updates = random_state(), self._count()
        self._step, self._is_saved = step, saved

    def save(self) -> None:
        """Write a checkpoint of the marked step. Nothing may have been learned since."""
        self._checkpoints.save(
            self._step,
            self._learners,
            json.loads(self._state),
            tokenizers=self._tokenizers,
            score=self._score,
            random=self._random,
        )
        self._is_saved = True
        if self._also is not None:
            self._also()

    def rescue(self) -> str:
        """After an interruption or a failure save what can be saved; returns what was done, in words."""
        if not self._is_saved and not (self._parts.idle and self._count() == self._updates):
            latest = self._checkpoints.latest()
            kept = f"{latest.name} is the last checkpoint" if latest else "there is no checkpoint yet"
            return f"the update under way was not completed; {kept}"
        if not self._is_saved:
            self.save()
        return f"step {self._step} is saved" if self._step else "no step is complete yet"

    def _count(self) -> dict[str, int]:
        return {name: learner.updates for name, learner in self._learners.items()}
