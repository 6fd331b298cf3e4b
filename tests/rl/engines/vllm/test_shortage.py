"""What vLLM says where a GPU's memory does not suffice, and what a user should set then.

The messages are those of vLLM 0.32's source (v1/core/kv_cache_utils.py, v1/worker/utils.py) and of torch
2.13; that of a cache that is too small is also provoked, on a CPU, in test_engine_vllm.py.
"""

from __future__ import annotations

import pytest

from mappa_rl.config import load_config
from mappa_rl.engines.vllm.shortage import remedy

CASES = {
    "no cache": (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "its weights leave no room for a key-value cache: raise engine.memory_fraction=0.4",
    ),
    "small cache": (
        "ValueError: To serve at least one request with the model's max seq len (4096), (2.25 GiB KV cache "
        "is needed, which is larger than the available KV cache memory (1.5 GiB). Based on the",
        "(2.25 GiB needed, 1.5 GiB there): raise engine.memory_fraction=0.4",
    ),
    "taken": (
        "ValueError: Free memory on device cuda:0 (11.2/79.1 GiB) on startup is less than desired GPU memory "
        "utilization (0.4, 31.64 GiB). Decrease GPU memory utilization",
        "the GPU has too little free memory (11.2/79.1 GiB): lower engine.memory_fraction=0.4, or end",
    ),
    "full": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity",
        "memory ran out: lower engine.memory_fraction=0.4 or engine.max_num_seqs=128",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_shortage_has_its_remedy(case: str) -> None:
    said, wanted = CASES[case]
    log = f"INFO starting\n(EngineCore pid=7) ERROR {said} ...\nRuntimeError: Engine core failed."
    assert wanted in str(remedy(log, load_config("demo", ["engine.name=vllm"]), on_cpu=False))


def test_other_failures_are_none() -> None:
    said = "WARNING this flag helps against running out of memory\nSafetensorError: Error while deserializing"
    assert remedy(said, load_config("demo", ["engine.name=vllm"]), on_cpu=True) is None
