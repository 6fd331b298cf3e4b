"""An environment in a worker on the cluster, which outlives the death of that worker."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

from mappa_env.types import ActionRecord, Trajectory
from mappa_rl.cluster.actors import answer, seen
from mappa_rl.environments.base import Stepped, TaskSet, Timer
from mappa_rl.environments.workers import EnvWorkers, Placed
from mappa_rl.errors import ActorLost, ClusterError

CLOSING_S = 30.0
"""Seconds to wait for a worker that closes an environment; one that is restarting has none."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class RemoteEnv:
    """An environment that one of ``workers`` plays. See ``PlayedEnv``.

    When the worker dies, another plays the episode's actions again, at most ``moves`` times an episode. The
    same seed and actions lead to the same prompts; where they do not, for instance because code printed the
    time, the policies would have answered something that nobody asked, and the step raises ActorLost.
    """

    def __init__(self, workers: EnvWorkers, env_id: str, options: Mapping[str, Any], moves: int) -> None:
        self._workers, self._env_id, self._options, self._moves = workers, env_id, dict(options), moves
        self._name = uuid.uuid4().hex
        self._timer: Timer = lambda _: nullcontext()
        self._worker: Placed | None = None
        self._lost: Placed | None = None
        self._moved = 0
        self._begun: tuple[int, str | None] | None = None
        self._seed: int | None = None
        self._agent = ""
        self._prompts: list[str] = []
        """Digests of what the policies saw after ``reset`` and after every action."""
        self._actions: list[str] = []
        self._records: list[ActionRecord] = []
        self._first: Trajectory | None = None
        self._whole: Trajectory | None = None
        self._answer: str | None = None

    def attach(self, timer: Timer) -> None:
        """See ``PlayedEnv.attach``. All that a worker does, its coach included, counts as its sandbox."""
        self._timer = timer

    def task_set(self) -> TaskSet:
        """See ``PlayedEnv.task_set``."""
        found: TaskSet = self._retried(lambda: self._ask("task_set"))
        return found

    def task_ids(self) -> Sequence[str]:
        """See ``PlayedEnv.task_ids``."""
        found: Sequence[str] = self._retried(lambda: self._ask("task_ids"))
        return found

    def reset(self, seed: int, task_id: str | None) -> dict[str, Any]:
        """See ``PlayedEnv.reset``."""
        self._moved, self._begun, self._seed, self._agent = 0, None, seed, ""
        self._actions, self._records, self._prompts = [], [], []
        self._whole = self._answer = None
        info, self._first = self._retried(lambda: self._ask("reset", seed, task_id))
        self._begun, self._agent = (seed, task_id), info["agent"]
        self._prompts = [_digest(info)]
        return dict(info)

    def step(self, action: str) -> Stepped:
        """See ``PlayedEnv.step``."""
        stepped, whole, final = self._retried(lambda: self._ask("step", action))
        self._actions.append(action)
        self._records.append(stepped.record)
        self._prompts.append(_digest(stepped.info))
        self._agent = stepped.info["agent"]
        self._answer, self._whole = final, whole
        return Stepped(stepped.info, stepped.record, stepped.over)

    @property
    def trajectory(self) -> Trajectory:
        """See ``PlayedEnv.trajectory``."""
        if self._whole is not None:
            return self._whole
        assert self._first is not None
        return dataclasses.replace(self._first, actions=tuple(self._records))

    @property
    def answer(self) -> str | None:
        """See ``PlayedEnv.answer``."""
        return self._answer

    def release(self) -> None:
        """See ``PlayedEnv.release``."""
        worker = self._worker
        if worker is not None:
            with suppress(ClusterError):  # a worker that is lost waits for no verdict
                answer(_control(worker, "release").remote(self._name), worker.name, CLOSING_S)

    def close(self) -> None:
        """See ``PlayedEnv.close``."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._workers.give_back(worker)
            with suppress(ClusterError):  # what is lost is closed
                answer(_control(worker, "close").remote(self._name), worker.name, CLOSING_S)

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the worker, which makes the environment first if it has none."""
        if self._worker is None:
            self._worker = self._workers.take(self._lost)
            opened = self._worker.actor.open.remote(self._name, self._env_id, self._options)
            seen(answer(opened, self._worker.name, self._workers.wait_s))
        call = getattr(self._worker.actor, method).remote(self._name, *arguments)
        with self._timer("sandbox"):
            return answer(call, self._worker.name)

    def _retried(self, ask: Callable[[], _T]) -> _T:
        """``ask()``; if the worker dies meanwhile, after the episode has moved to another."""
        while True:
            try:
                if self._worker is None and self._begun is not None:
                    self._replay(*self._begun)
                return ask()
            except ActorLost as error:
                if self._moved == self._moves:
                    raise
                self._moved += 1
                lost = self._worker.name if self._worker is not None else "a worker"
                _log.warning("%s leaves %s for another worker: %s", self._episode(), lost, error)
                self._give_up()

    def _episode(self) -> str:
        """The episode, in words."""
        if self._seed is None:
            return "An environment"
        return f"The episode of seed {self._seed}{f' ({self._agent} acts)' if self._agent else ''}"

    def _give_up(self) -> None:
        """Leave the worker that is lost. If it was only out of reach, it closes the environment later."""
        self._lost, self._worker = self._worker, None
        if self._lost is not None:
            self._workers.give_back(self._lost)
            _control(self._lost, "close").remote(self._name)

    def _replay(self, seed: int, task_id: str | None) -> None:
        """Play the episode so far on a new worker. Raises ActorLost if it goes another way."""
        info, _ = self._ask("reset", seed, task_id)
        prompts = [_digest(info)]
        for action in self._actions:
            prompts.append(_digest(self._ask("step", action)[0].info))
        if prompts != self._prompts:
            self._moved = self._moves  # another worker would not repeat it either
            raise ActorLost(
                f"the episode of seed {seed} was lost with its worker, and its {len(self._actions)} actions "
                "led to another prompt when they were played again."
            )


def _control(worker: Placed, method: str) -> Any:
    """A call that does not wait for the steps under way."""
    return getattr(worker.actor, method).options(concurrency_group="control")


def _digest(info: Mapping[str, Any]) -> str:
    """Of what a policy sees of ``info``: who acts, and its messages."""
    seen = f"{info['agent']}\n{info['messages']!r}"
    return hashlib.sha256(seen.encode("utf-8", "surrogatepass")).hexdigest()
