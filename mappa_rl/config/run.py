"""The run itself: its length, folder and records."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mappa_rl.config.base import Count, Section


class Run(Section):
    """The run itself."""

    steps: Annotated[int, Field(ge=0)] = 40
    """Training steps."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    """Seed of everything random, except for what vllm samples on the ``async`` schedule."""
    out: str = ""
    """Folder of the run; empty: ``runs/<recipe>-<time>``."""
    checkpoint_every: Annotated[int, Field(ge=0)] = 10
    """Training steps between checkpoints; 0: only after the last."""
    keep_checkpoints: Count = 2
    """Number of newest checkpoints to keep; the best one is kept too."""
    checkpoints_mb: Annotated[int, Field(ge=0)] = 0
    """Most MB (1e6 bytes) on disk for all checkpoints: older ones go first, the newest and the best stay;
    0: no limit."""
    processes: Count = 1
    """Processes of each crew that trains, each on its own GPU if there are GPUs; the first of all plays the
    episodes."""
    torch_threads: Annotated[int, Field(ge=0)] = 1
    """Torch threads; 0: torch's default."""
    tensorboard: bool = True
    """Write TensorBoard files next to ``metrics.jsonl``."""
    wandb: str = ""
    """Weights & Biases project for the metrics; empty: none. The key is read from WANDB_API_KEY or netrc."""
    weave: str = ""
    """Weave project for traces of the training episodes; empty: none. The key is that of W&B."""
    trace_every: Annotated[int, Field(ge=0)] = 1
    """Training steps between those whose episodes are kept as traces, in ``traces/train``; 0: none."""
    record_rollouts: bool = False
    """Keep every step's episodes as ``rollouts/step-….jsonl.gz``, for ``mappa-rl replay``."""
