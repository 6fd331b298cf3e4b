"""The GPU's memory that a part took."""

from __future__ import annotations

import torch

from gpu_parts.figure import Figure
from gpu_parts.where import Where


def memory(where: Where) -> list[Figure]:
    if where.device != "cuda":
        return []
    return [("peak memory", f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB", "")]
