"""Gradients of the learner's paths, against the CPU's."""

from __future__ import annotations

from gpu_parts.figure import Figure, at_most
from gpu_parts.where import Where


def gradients(where: Where) -> list[Figure]:
    from gpu_learner import differences

    return [
        (name, f"{gap:.2g}", at_most(gap, 1e-3 if name.startswith("fp32:") else 0.05, "relative norm"))
        for name, gap in differences(where.device).items()
    ]
