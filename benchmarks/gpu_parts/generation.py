"""Generation by an engine, against a plain forward pass."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from gpu_parts.figure import Figure, at_most
from gpu_parts.memory import memory
from gpu_parts.where import Where


def generation_hf(where: Where) -> list[Figure]:
    from mappa_rl.engines.hf.engine import HFEngine

    model = where.model()
    engine = HFEngine(model)
    requests = requests_of(where, 16 if where.tiny else 64)
    engine.generate(requests[:2])
    return [*generated(where, engine, model, requests, "hf"), *memory(where)]


def requests_of(where: Where, count: int) -> list[Any]:
    import numpy as np

    from mappa_rl.engines.base import Request

    rng, size = np.random.default_rng(0), 32 if where.tiny else 256
    prompts = rng.integers(2, where.sizes.vocabulary, (count, size)).tolist()
    return [Request(tuple(ids), k, size, 1.0, (), 1.0) for k, ids in enumerate(prompts)]


def generated(where: Where, engine: Any, model: Any, requests: Sequence[Any], name: str) -> list[Figure]:
    """Tokens a second, and the mean difference of log-probs from those of a plain forward pass in bf16."""
    began = time.perf_counter()
    done = engine.generate(requests)
    spent = time.perf_counter() - began
    gaps = []
    for request, out in list(zip(requests, done, strict=True))[:8]:
        with torch.no_grad():
            ids = torch.tensor([[*request.ids, *out.ids]], device=where.device)
            table = torch.log_softmax(model(input_ids=ids).logits[0].float(), -1)
        at = torch.arange(len(out.ids), device=where.device) + len(request.ids) - 1
        plain = table[at, ids[0, len(request.ids) :]].cpu()
        gaps.append((plain - torch.tensor(out.logprobs)).abs().mean())
    gap, tokens = float(torch.stack(gaps).mean()), sum(len(out.ids) for out in done)
    check = at_most(gap, 0.05, "mean difference of log-probs from a forward pass")
    return [(f"{name}, {len(requests)} requests", f"{tokens / spent:,.0f} tokens/s", check)]
