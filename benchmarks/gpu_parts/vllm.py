"""The engine vllm beside a learner's model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from gpu_parts.figure import Figure
from gpu_parts.generation import generated, requests_of
from gpu_parts.package import need
from gpu_parts.where import Where


def vllm(where: Where) -> list[Figure]:
    """Generation, new weights between the two processes, sleep and wake-up, beside a learner's model."""
    return _vllm(where)


def vllm_eager(where: Where) -> list[Figure]:
    """The same without compilation and CUDA graphs."""
    return _vllm(where, "engine.eager=true")


def _vllm(where: Where, *settings: str) -> list[Figure]:
    need("vllm")
    from mappa_rl.config import load_config
    from mappa_rl.engines.vllm.engine import VLLMEngine
    from mappa_rl.engines.vllm.log import EngineLog
    from mappa_rl.engines.vllm.options import VLLMOptions
    from mappa_rl.engines.vllm.server import VLLMServer

    model = where.model()
    folder = where.scratch / "model"
    model.save_pretrained(folder)
    longest = where.sizes.longest
    overrides = ["engine.name=vllm", "engine.dtype=bf16", f"rollout.max_context={longest}"]
    overrides += [f"model.max_len={longest}", "engine.kv_cache_mb=64", "engine.max_num_seqs=64", *settings]
    if where.device == "cuda":
        overrides += ["engine.sleep=true", "engine.memory_fraction=0.4"]
    options = VLLMOptions(folder, load_config("demo", overrides), log=EngineLog(where.scratch / "engine.log"))
    began = time.perf_counter()
    engine = VLLMEngine(VLLMServer(options))
    rows = [("start", f"{time.perf_counter() - began:.1f} s", "")]
    try:
        requests = requests_of(where, 16 if where.tiny else 64)
        engine.generate(requests[:2])
        rows += generated(where, engine, model, requests, "first weights")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.01)
        for _ in range(3):
            engine.load_weights(model)
        sent = engine.last_sync
        assert sent is not None
        rows.append(
            (
                f"new weights by {options.backend}: {sent.bytes / 1e6:,.0f} MB, {sent.transfers} transfers",
                f"{sent.seconds:.3f} s",
                "ok: every digest is the same",  # else load_weights raises
            )
        )
        rows += generated(where, engine, model, requests, "new weights")
        if where.device == "cuda":
            rows += _slept(where, engine, model, requests)
    finally:
        engine.close()
    return rows


def _slept(where: Where, engine: Any, model: Any, requests: Sequence[Any]) -> list[Figure]:
    before = torch.cuda.mem_get_info()[0]
    engine.sleep()
    freed = (torch.cuda.mem_get_info()[0] - before) / 1e9
    began = time.perf_counter()
    engine.wake()
    engine.load_weights(model)
    woken = time.perf_counter() - began
    check = "ok" if freed > 1 else "WRONG: nothing was freed"
    rows = [("sleep frees", f"{freed:.1f} GB", check), ("wake and new weights", f"{woken:.2f} s", "")]
    return [*rows, *generated(where, engine, model, requests, "after the sleep")]
