"""The attention of one layer over one pack, by each kernel."""

from __future__ import annotations

from typing import Any

import torch

from gpu_parts.figure import Figure, at_most
from gpu_parts.where import Where


def attention(where: Where) -> list[Figure]:
    """Forward and backward pass of one layer's attention over one pack, by each kernel."""
    import numpy as np
    from gpu_learner import make_samples

    from mappa_rl.learner.attention import Segments, varlen_flash, varlen_sdpa

    shape = where.sizes
    lengths = np.array([len(sample) for sample in make_samples(shape._replace(packs=1))[0]])
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    segments = Segments.of(bounds, torch.device(where.device))
    torch.manual_seed(0)
    heads = (shape.heads, shape.kv_heads, shape.kv_heads)
    sizes = [(1, count, shape.pack, shape.head_dim) for count in heads]
    inputs = [torch.randn(size, device=where.device, dtype=torch.bfloat16).requires_grad_() for size in sizes]
    module = torch.nn.Module()
    work = 6 * shape.heads * shape.head_dim * float((lengths.astype(float) ** 2).sum())

    def gradients(kernel: Any) -> torch.Tensor:
        out, _ = kernel(module, *inputs, None, segments=segments)
        return torch.cat(
            [g.flatten().float() for g in torch.autograd.grad(out.float().square().sum(), inputs)]
        )

    rows = []
    kernels = {"one SDPA a segment": varlen_sdpa}
    if where.device == "cuda":
        kernels["torch's flash, all segments"] = varlen_flash
    for name, kernel in kernels.items():
        spent = where.seconds(lambda kernel=kernel: gradients(kernel))
        rows.append((f"{name}, {shape.pack} tokens in {len(lengths)}", f"{spent * 1e3:.2f} ms", ""))
        rows.append((f"{name}, rate", f"{work / spent / 1e12:.3g} TFLOP/s", ""))
    if where.device == "cuda":
        one, other = gradients(varlen_sdpa), gradients(varlen_flash)
        gap = float((one - other).norm() / one.norm())
        rows.append(("flash and SDPA, gradients", f"{gap:.2g}", at_most(gap, 0.02, "norm of the difference")))
    return rows
