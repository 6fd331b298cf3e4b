"""Weights that pass from one process to another."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch.multiprocessing as processes

from gpu_parts.figure import Figure
from gpu_parts.where import Where


def ipc(where: Where) -> list[Figure]:
    """The model's weights to another process by handles, which computes their digests."""
    from mappa_rl.engines.weights.digest import digest

    weights = {name: tensor.detach() for name, tensor in where.model().named_parameters()}
    total = sum(tensor.nbytes for tensor in weights.values())
    spawned = processes.get_context("spawn")
    there, back = spawned.Queue(), spawned.Queue()
    child = spawned.Process(target=_received, args=(there, back), daemon=True)
    child.start()
    back.get()  # the child is there
    found = []
    for _ in range(3):
        began = time.perf_counter()
        there.put(weights)
        received = back.get()
        found.append(time.perf_counter() - began)
    there.put(None)
    child.join(30)
    wrong = [name for name, tensor in weights.items() if received[name] != digest(tensor)]
    check = (
        f"WRONG: {len(wrong)} of {len(weights)} tensors differ" if wrong else "ok: every digest is the same"
    )
    rate = total / statistics.median(found) / 1e9
    how = "CUDA handles" if where.device == "cuda" else "shared memory"
    return [(f"{total / 1e6:,.0f} MB by {how}, digests included", f"{rate:.3g} GB/s", check)]


def _received(there: Any, back: Any) -> None:
    from mappa_rl.engines.weights.digest import digest

    back.put("ready")
    while (weights := there.get()) is not None:
        back.put({name: digest(tensor) for name, tensor in weights.items()})
        del weights
