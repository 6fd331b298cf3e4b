"""Where a part runs: the device, the size of the model, and a folder to write to."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch


class Where(NamedTuple):
    """``shape``: a name of ``gpu_learner.SHAPES``; ``scratch``: a folder to write to."""

    device: str
    shape: str
    scratch: Path

    @property
    def tiny(self) -> bool:
        return self.shape == "tiny"

    @property
    def sizes(self) -> Any:
        """The shape; a tiny one with heads of 32, the narrowest that vLLM's CPU kernels know."""
        from gpu_learner import SHAPES

        found = SHAPES[self.shape]
        return found._replace(head_dim=32) if self.tiny else found

    def model(self) -> Any:
        """The random model in bf16, on the device."""
        from gpu_learner import make_model

        return make_model(self.sizes, torch.bfloat16, self.device)

    def synchronise(self) -> None:
        from gpu_learner import synchronise

        synchronise(self.device)

    def seconds(self, act: Callable[[], Any], repeats: int = 5) -> float:
        """Median of ``repeats``, after two to warm up."""
        found = []
        for _ in range(repeats + 2):
            self.synchronise()
            began = time.perf_counter()
            act()
            self.synchronise()
            found.append(time.perf_counter() - began)
        return statistics.median(found[2:])
