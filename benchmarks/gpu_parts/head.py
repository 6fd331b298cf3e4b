"""The output layer and its softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpu_parts.figure import Figure, at_most
from gpu_parts.where import Where


def head(where: Where) -> list[Figure]:
    """Output layer and log-probs, forward and backward: the learner's chunks, and Liger's fused kernel."""
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    from mappa_rl.learner.lm_head import score_logits
    from mappa_rl.learner.packing import LOGITS_CHUNK

    shape = where.sizes
    torch.manual_seed(0)
    options: Any = {"device": where.device, "dtype": torch.bfloat16}
    hidden = torch.randn(shape.pack, shape.width, **options).requires_grad_()
    weight = (torch.randn(shape.vocabulary, shape.width, **options) / shape.width**0.5).requires_grad_()
    targets = torch.randint(shape.vocabulary, (shape.pack,), device=where.device)
    chunks = max(1, -(-shape.pack * shape.vocabulary // LOGITS_CHUNK[where.device]))

    def part(some: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return score_logits(F.linear(some, weight), wanted, 1.0)[0]

    def ours() -> torch.Tensor:
        pairs = zip(hidden.tensor_split(chunks), targets.tensor_split(chunks), strict=True)
        parts = [checkpoint(part, *pair, use_reentrant=False, preserve_rng_state=False) for pair in pairs]
        return -torch.cat(parts).mean()

    def both(loss: Callable[[], torch.Tensor]) -> torch.Tensor:
        return torch.autograd.grad(loss(), (hidden, weight))[0]

    rows = []
    ways: dict[str, Callable[[], torch.Tensor]] = {f"ours, {chunks} chunks": ours}
    if where.device == "cuda":
        try:
            from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
        except ImportError as error:
            rows.append(("Liger's fused head", "-", f"not installed ({error})"))
        else:
            fused = LigerFusedLinearCrossEntropyLoss()
            ways["Liger's fused head"] = lambda: fused(weight, hidden, targets)
    for name, loss in ways.items():
        if where.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        spent = where.seconds(lambda loss=loss: both(loss), 3)
        rows.append((name, f"{shape.pack / spent:,.0f} tokens/s", ""))
        if where.device == "cuda":
            rows.append((f"{name}, peak", f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB", ""))
    plain = both(lambda: F.cross_entropy(F.linear(hidden, weight).float(), targets))
    for name, loss in ways.items():
        gap = float((both(loss) - plain).float().norm() / plain.float().norm())
        rows.append((f"{name}, gradient", f"{gap:.2g}", at_most(gap, 0.05, "cross entropy of torch")))
    return rows
