"""The workers that play a run's environments: started as environments need them, up to a number."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any

from mappa_rl.cluster.actors import placed
from mappa_rl.cluster.session import connect
from mappa_rl.config import Cluster
from mappa_rl.environments.worker import EnvWorker

MOST_AT_ONCE = 128
"""Environments of a worker that run side by side; it has a thread for each."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A worker: its number and its actor."""

    number: int
    actor: Any

    @property
    def name(self) -> str:
        """What messages and Ray call it."""
        return named(self.number)


def named(number: int) -> str:
    """The actor's name; all task sets of a run share the workers of these names."""
    return f"environments-{number}"


class EnvWorkers:
    """Finds a worker for every environment of one task set. Thread-safe.

    An environment goes to the worker with the fewest. When all have ``cluster.envs_per_worker``, another
    starts, up to ``most``; after that they get more than that. A worker without environments stays: the next
    step needs it again, and another task set may use it.
    """

    def __init__(self, cluster: Cluster, in_flight: int, most: int) -> None:
        self._cluster = cluster
        self.most = most
        self._concurrency = min(in_flight, MOST_AT_ONCE)
        self._lock = threading.Lock()
        self._load: Counter[int] = Counter()
        self._found: dict[int, Placed] = {}

    def take(self, lost: Placed | None = None) -> Placed:
        """A worker for one more environment, if possible not the one that ``lost`` it.

        Raises ClusterError if none can be placed in time.
        """
        with self._lock:
            number = self._choose(lost)
            self._load[number] += 1
            if number in self._found:
                return self._found[number]
            self._found[number] = found = Placed(number, self._start(number))
        try:  # without the lock: it may take minutes
            placed(found.actor, found.name, self._wanted, self.wait_s)
        except BaseException:
            with self._lock:
                del self._found[number], self._load[number]
            raise
        return found

    @property
    def wait_s(self) -> float:
        """Seconds that an environment may take to start."""
        return self._cluster.placement_s

    def give_back(self, worker: Placed) -> None:
        """An environment has left ``worker``."""
        with self._lock:
            if worker.number in self._found:
                self._load[worker.number] -= 1

    def _choose(self, lost: Placed | None) -> int:
        started = sorted(self._found)
        number = min(started, key=lambda each: (each == (lost and lost.number), self._load[each]), default=0)
        full = not started or self._load[number] >= self._cluster.envs_per_worker
        if full and len(started) < self.most:
            return next(each for each in count() if each not in self._found)
        return number

    @property
    def _wanted(self) -> dict[str, float]:
        return self._cluster.env_wish()

    def _start(self, number: int) -> Any:
        """The actor of this number, which Ray places when it can."""
        ray, resources = connect(self._cluster), self._wanted
        return (
            ray.remote(concurrency_groups={"control": 2})(EnvWorker)
            .options(
                name=named(number),
                get_if_exists=True,
                num_cpus=resources.pop("CPU"),
                resources=resources,
                scheduling_strategy="SPREAD",
                max_restarts=-1,
                max_concurrency=self._concurrency,
            )
            .remote()
        )
