"""Several processes train one team: rank 0 plays the episodes and leads, the others follow.

Only rank 0 has environments, coach, engines and metrics, so episodes do not depend on the number of
processes. When rank 0 calls a method of a learner, every process calls it with its part of the samples. Calls
travel over gloo, between the processes of this run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import torch.distributed as dist

from mappa_rl.distributed import gathered, join, world
from mappa_rl.learner.batch import Batch, pick
from mappa_rl.learner.dealing import deal, shares
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.losses import Objective
from mappa_rl.types import Demonstrations, Floats, Sample, StepStats

_PATIENCE = timedelta(days=7)
"""How long followers wait for the next call; the episodes of a step may take hours."""


class Processes:
    """The processes of a run; every process creates one at the same point. ``rank`` 0 leads.

    ``members``: the objects whose methods rank 0 calls in all processes, with the same names everywhere. At
    the end of a ``with`` block, also an interrupted one, rank 0 releases the followers; after another
    exception the launcher ends them.
    """

    def __init__(self, members: Mapping[str, Any]) -> None:
        join()
        self.rank, self.count = world()
        self.idle = True
        """Whether no call is under way, so that the other processes wait for one."""
        self._members = members
        self._group = dist.new_group(backend="gloo", timeout=_PATIENCE) if self.count > 1 else None

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stopped = error is None or isinstance(error, KeyboardInterrupt)
        if self.count > 1 and stopped and self.idle:
            self._order([None] * self.count)

    def call(self, name: str, method: str, parts: Sequence[Mapping[str, Any]]) -> list[Any]:
        """On rank 0: call ``method`` of the member ``name`` in all processes, with ``parts[i]`` in process i.

        Returns the results in order of rank. An error in one process ends that process, and with it the run.
        """
        self.idle = False
        self._order([(name, method, part) for part in parts])
        answers = self._answers(getattr(self._members[name], method)(**parts[0]))
        self.idle = True
        return answers

    @contextmanager
    def gathering(self, name: str) -> Iterator[None]:
        """On rank 0: make the others take part in the ``gathered`` of this member's model in the block.

        After a block that was left early they still do, so ``idle`` remains False.
        """
        self.idle = False
        self._order([(name, "", {})] * self.count)
        yield
        self.idle = True

    def follow(self) -> None:
        """On the other ranks: carry out calls until rank 0 releases them."""
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
    """On rank 0: stands for the reference in all processes."""

    def __init__(self, name: str, processes: Processes) -> None:
        self._name, self._processes = name, processes

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """See ``Reference.logprobs``."""
        return self._scores("logprobs", samples)

    def _scores(self, method: str, samples: Sequence[Sample]) -> list[Floats]:
        chosen = shares([len(sample) for sample in samples], self._processes.count)
        answers = self._call(method, [{"samples": pick(samples, mine)} for mine in chosen])
        places, rows = chain.from_iterable(chosen), chain.from_iterable(answers)
        found = dict(zip(places, rows, strict=True))
        return [found[i] for i in range(len(samples))]

    def _call(self, method: str, parts: Sequence[Mapping[str, Any]]) -> list[Any]:
        return self._processes.call(self._name, method, parts)


class SharedLearner(SharedReference):
    """On rank 0: stands for one policy's learner in all processes, with the methods of ``Learner``."""

    def __init__(self, name: str, processes: Processes, own: Learner) -> None:
        super().__init__(name, processes)
        self.model, self._own = own.model, own

    @property
    def updates(self) -> int:
        """Optimizer updates so far."""
        return self._own.updates

    def values(self, samples: Sequence[Sample]) -> list[Floats]:
        """See ``Learner.values``."""
        return self._scores("values", samples)

    def step(
        self, batch: Batch, objective: Objective, demonstrations: Demonstrations | None = None
    ) -> StepStats:
        """See ``Learner.step``. Every minibatch is dealt to the processes by tokens."""
        own = self._own.draw(batch, demonstrations)
        lengths = [[len(sample) for sample in batch.samples]]
        if demonstrations is not None:
            lengths.append([len(sample) for sample in demonstrations.samples])
        parts = [
            {
                "batch": batch.pick(share.held[0]),
                "objective": objective,
                "demonstrations": None if demonstrations is None else demonstrations.pick(share.held[1]),
                "minibatches": share.minibatches,
            }
            for share in deal(own, lengths, self._processes.count)
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
