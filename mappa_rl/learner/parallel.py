"""Several processes train one team: the first plays the episodes and leads, the others follow.

The first process has the environments, the coach with its limits and its budget, the engines and the metrics,
so that nothing of an episode depends on how many processes train. A method of a learner that is called there
is called in all of them, each with its share of the samples. Orders go over gloo, between this run's own
processes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch.distributed as dist

from mappa_rl.backend import gathered, join, world
from mappa_rl.critic import Criticism
from mappa_rl.learner import Learner
from mappa_rl.types import Demonstrations, Floats, Sample, StepStats

_PATIENCE = timedelta(days=7)
"""How long followers wait for the next order: the episodes of a step may take hours."""
_T = TypeVar("_T")


class Processes:
    """The processes of a run: each makes one, at the same point of its program. ``rank`` 0 leads.

    ``members`` are the objects whose methods the leader calls everywhere, by name, the same in all processes.
    As a context manager it dismisses the followers at the end; after an exception the launcher ends them.
    """

    def __init__(self, members: Mapping[str, Any]) -> None:
        join()
        self.rank, self.count = world()
        self._members = members
        self._group = dist.new_group(backend="gloo", timeout=_PATIENCE) if self.count > 1 else None

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self.count > 1:
            self._order([None] * self.count)

    def call(self, name: str, method: str, parts: Sequence[Mapping[str, Any]]) -> list[Any]:
        """On the leader: call ``method`` of a member in all processes, in process i with ``parts[i]``.

        Returns the answers. What fails in one process ends it, and with it the run.
        """
        self._order([(name, method, part) for part in parts])
        return self._answers(getattr(self._members[name], method)(**parts[0]))

    def gather(self, name: str) -> None:
        """On the leader: the others take part in the ``gathered`` of a member's model that comes next."""
        self._order([(name, "", {})] * self.count)

    def follow(self) -> None:
        """On the others: do what the leader says until it dismisses them."""
        while (order := self._receive()) is not None:
            name, method, part = order
            if method:
                self._answers(getattr(self._members[name], method)(**part))
            else:
                with gathered(self._members[name].model):
                    pass

    def _order(self, orders: list[Any]) -> None:
        dist.scatter_object_list([None], orders, src=0, group=self._group)

    def _receive(self) -> Any:
        found: list[Any] = [None]
        dist.scatter_object_list(found, None, src=0, group=self._group)
        return found[0]

    def _answers(self, mine: Any) -> list[Any]:
        found: list[Any] | None = [None] * self.count if self.rank == 0 else None
        dist.gather_object(mine, found, dst=0, group=self._group)
        return found or []


class SharedReference:
    """The reference in all processes, as the leader sees it."""

    def __init__(self, name: str, processes: Processes) -> None:
        self._name, self._processes = name, processes

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """See ``Reference.logprobs``."""
        return self._scores("logprobs", samples)

    def _scores(self, method: str, samples: Sequence[Sample]) -> list[Floats]:
        chosen = shares([len(sample) for sample in samples], self._processes.count)
        answers = self._call(method, [{"samples": _pick(samples, mine)} for mine in chosen])
        places, rows = chain.from_iterable(chosen), chain.from_iterable(answers)
        found = dict(zip(places, rows, strict=True))
        return [found[i] for i in range(len(samples))]

    def _call(self, method: str, parts: Sequence[Mapping[str, Any]]) -> list[Any]:
        return self._processes.call(self._name, method, parts)


class SharedLearner(SharedReference):
    """One policy's learner in all processes, as the leader sees it: with the methods of ``Learner``."""

    def __init__(self, name: str, processes: Processes, own: Learner) -> None:
        super().__init__(name, processes)
        self.model, self._own = own.model, own

    @property
    def updates(self) -> int:
        return self._own.updates

    def values(self, samples: Sequence[Sample]) -> list[Floats]:
        """See ``Learner.values``."""
        return self._scores("values", samples)

    def step(
        self,
        samples: Sequence[Sample],
        advantages: Sequence[Floats],
        weights: Sequence[Floats],
        *,
        reference: Sequence[Floats] | None = None,
        demonstrations: Demonstrations | None = None,
        criticism: Criticism | None = None,
        **options: Any,
    ) -> StepStats:
        """See ``Learner.step``. A minibatch is made of one from each process's share."""
        count = self._processes.count
        told = [None] * count if demonstrations is None else _dealt(demonstrations, count)
        parts = [
            {
                "samples": _pick(samples, mine),
                "advantages": _pick(advantages, mine),
                "weights": _pick(weights, mine),
                "reference": None if reference is None else _pick(reference, mine),
                "demonstrations": some,
                "criticism": None if criticism is None else _criticised(criticism, mine),
                **options,
            }
            for mine, some in zip(shares([len(sample) for sample in samples], count), told, strict=True)
        ]
        found: StepStats = self._call("step", parts)[0]
        return found

    def save(self, folder: Path) -> None:
        """See ``Learner.save``."""
        self._everywhere("save", folder=folder)

    def load(self, folder: Path) -> None:
        """See ``Learner.load``."""
        self._everywhere("load", folder=folder)

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """See ``Learner.export``."""
        self._everywhere("export", folder=folder, tokenizer=tokenizer)

    def export_adapter(self, folder: Path) -> None:
        """See ``Learner.export_adapter``."""
        self._everywhere("export_adapter", folder=folder)

    def _everywhere(self, method: str, **options: Any) -> None:
        self._call(method, [options] * self._processes.count)


def shares(lengths: Sequence[int], count: int) -> list[list[int]]:
    """Deal samples of these lengths (tokens) to processes, the longest first, to the least laden."""
    loads = [(0, process) for process in range(count)]
    dealt: list[list[int]] = [[] for _ in range(count)]
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        load, process = loads[0]
        dealt[process].append(i)
        heapq.heapreplace(loads, (load + lengths[i], process))
    return [sorted(mine) for mine in dealt]


def _dealt(demonstrations: Demonstrations, count: int) -> list[Demonstrations]:
    samples, weights = demonstrations.samples, demonstrations.weights
    return [
        Demonstrations(_pick(samples, mine), _pick(weights, mine), demonstrations.coef)
        for mine in shares([len(sample) for sample in samples], count)
    ]


def _criticised(whole: Criticism, mine: Sequence[int]) -> Criticism:
    return Criticism(_pick(whole.values, mine), _pick(whole.returns, mine), whole.loss)


def _pick(values: Sequence[_T], chosen: Sequence[int]) -> list[_T]:
    return [values[i] for i in chosen]
