"""The run itself: its length, folder and records."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mappa_rl.sections.base import Count, Section


class Run(Section):
    """The run itself."""

    steps: Annotated[int, Field(ge=0)] = 40
    """Training steps."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of everything random."""
    out: str = ""
    """Folder of the run; empty: ``runs/<recipe>-<time>``."""
    checkpoint_every: Annotated[int, Field(ge=0)] = 10
    """Training steps between checkpoints; 0: only after the last."""
    keep: Count = 2
    """Checkpoints to keep, the newest first."""
    processes: Count = 1
    """Processes that train, each on a GPU of its own where there are GPUs; the first plays the episodes."""
    torch_threads: Annotated[int, Field(ge=0)] = 1
    """Threads of torch; 0: as many as torch likes."""
    tensorboard: bool = True
    """Write TensorBoard files beside ``metrics.jsonl``."""
    wandb: str = ""
    """Weights & Biases project that metrics go to as well; empty: none. Its key is read from WANDB_API_KEY or
    netrc."""
    weave: str = ""
    """Weave project that training episodes go to as traces; empty: none. The key is that of W&B."""
    record_rollouts: bool = False
    """Keep every step's episodes as ``rollouts/step-….jsonl.gz``, from which ``mappa-rl replay`` trains."""
