"""Learner and reference of a policy that another crew trains, with the methods of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mappa_rl.crews.crew import Crew
from mappa_rl.crews.weights import unpack
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.losses import Objective
from mappa_rl.types import Demonstrations, Floats, Sample, StepStats

UPDATES, WEIGHTS = "updates", "weights"
"""Calls that are not methods of a learner: the number of its updates, its weights as bytes."""


class CrewReference:
    """Stands for a reference in another crew."""

    def __init__(self, name: str, crew: Crew) -> None:
        self._name, self.crew = name, crew

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """See ``Reference.logprobs``."""
        found: list[Floats] = self._call("logprobs", samples=samples)
        return found

    def _call(self, method: str, **options: Any) -> Any:
        return self.crew.call(self._name, method, **options)


class CrewLearner(CrewReference):
    """Stands for a policy's learner in another crew; ``model`` gets the weights after every update."""

    def __init__(self, name: str, crew: Crew, model: Any) -> None:
        super().__init__(name, crew)
        self.model = model
        self.updates = 0
        """Optimizer updates so far."""

    def values(self, samples: Sequence[Sample]) -> list[Floats]:
        """See ``Learner.values``."""
        found: list[Floats] = self._call("values", samples=samples)
        return found

    def step(
        self, batch: Batch, objective: Objective, demonstrations: Demonstrations | None = None
    ) -> StepStats:
        """See ``Learner.step``."""
        stats: StepStats = self._call("step", batch=batch, objective=objective, demonstrations=demonstrations)
        self._refresh()
        return stats

    def save(self, folder: Path) -> None:
        """See ``Learner.save``."""
        self._call("save", folder=folder)

    def load(self, folder: Path) -> None:
        """See ``Learner.load``."""
        self._call("load", folder=folder)
        self._refresh()

    def export(self, folder: Path, tokenizer: Any = None) -> None:
        """See ``Learner.export``."""
        self._call("export", folder=folder, tokenizer=tokenizer)

    def export_adapter(self, folder: Path) -> None:
        """See ``Learner.export_adapter``."""
        self._call("export_adapter", folder=folder)

    def _refresh(self) -> None:
        self.updates = self._call(UPDATES)
        unpack(self._call(WEIGHTS), self.model)
