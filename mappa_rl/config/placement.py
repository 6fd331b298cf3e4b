"""Where the policies of a run learn, and which engines sample them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mappa_rl.config.base import Count, Section
from mappa_rl.config.engine import Engine


class Servers(Section):
    """The engines of one policy; what is not set is as in ``engine``."""

    replicas: Count | None = None
    """Number of engines that sample the policy side by side."""
    tensor_parallel: Count | None = None
    """Number of workers, each on its own GPU, over which the policy's model is split."""
    devices: list[Annotated[int, Field(ge=0)]] | None = None
    """CUDA indices of the policy's GPUs, ``tensor_parallel`` for each replica."""


class Placement(Section):
    """Where policies learn and are sampled (docs/training.md). It never changes who plays what."""

    crews: Literal["together", "apart"] | dict[str, Annotated[int, Field(ge=0)]] = "together"
    """Crews of ``run.processes`` processes, which learn at the same time. ``together``: one trains all
    policies; ``apart``: one for every trained policy; or policy -> number of its crew. Crew 0, with the
    process that plays the episodes, trains the policies that are not named."""
    engines: dict[str, Servers] = {}
    """Policy -> engines of its own kind, for policies that need more or larger ones: ``replicas``,
    ``tensor_parallel`` and ``devices``, each as in ``engine`` where it is not set. Only for vllm."""

    def engine_of(self, policy: str, engine: Engine) -> Engine:
        """The ``engine`` section as it holds for ``policy``."""
        own = self.engines.get(policy)
        return engine if own is None else engine.model_copy(update=own.model_dump(exclude_none=True))
