"""What it costs to bring new weights from the learner to vLLM in another process, and whether they arrive.

A random Qwen3 in fp32 is changed again and again, sent to a vLLM engine on a CPU, and asked for log-probs of
sampled tokens, which are compared with a plain forward pass of the learner's module. In turns, in one run:

    in place        weights are written where the engine computes with them, and digests compared
    reload          the same through vLLM's layer-by-layer reload, which packs them for oneDNN
    reload, by name the reload with one call per parameter, as trainers do that update an engine name by name
    a plain copy    of the same weights within the learner's process

Both engines then answer the same requests, to show what plain weights cost against packed ones.

    python benchmarks/weight_sync.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import Qwen3Config, Qwen3ForCausalLM

from mappa_rl import sync
from mappa_rl.engines.base import Request
from mappa_rl.engines.digest import combined, digest
from mappa_rl.engines.log import EngineLog
from mappa_rl.engines.vllm import VLLMEngine
from mappa_rl.engines.vllm_options import VLLMOptions, import_vllm
from mappa_rl.engines.vllm_server import VLLMServer

SIZES = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 192, "vocab_size": 512},
    "16 M": {"hidden_size": 384, "num_hidden_layers": 9, "intermediate_size": 1152, "vocab_size": 4096},
    "101 M": {"hidden_size": 768, "num_hidden_layers": 16, "intermediate_size": 2304, "vocab_size": 8192},
}
MAX_LEN = 512
BATCHES = (1, 8, 32, 64)  # requests at once


def make(name: str) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        **SIZES[name], num_attention_heads=8, num_key_value_heads=4, head_dim=32, initializer_range=0.04,
        max_position_embeddings=MAX_LEN, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def measure(name: str, updates: int, prompts: int, replies: int) -> dict[str, Any]:
    """All figures of one model; seconds are medians over ``updates``."""
    model = make(name)
    weights = sync.named_weights(model)
    own = {key: tensor.clone() for key, tensor in weights.items()}
    whole = sum(tensor.nbytes for tensor in weights.values())
    copies: list[float] = []
    stats: dict[str, list[sync.SyncStats]] = {"in place": [], "reload": [], "by name": []}
    difference, equal = 0.0, True
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        engines = {"in place": start(Path(folder)), "reload": start(Path(folder), in_place=False)}
        try:
            for update in range(updates + 1):
                change(model, update)
                started = time.perf_counter()
                for key, tensor in weights.items():
                    own[key].copy_(tensor)
                copies.append(time.perf_counter() - started)
                right = combined({key: digest(tensor) for key, tensor in weights.items()})
                for way, engine in engines.items():
                    engine.load_weights(model)
                    stats[way].append(engine.last_sync)
                    difference = max(difference, worst(engine, model, update, prompts))
                with patch("mappa_rl.shared_memory_sender.buckets", lambda sizes: [[key] for key in sizes]):
                    engines["reload"].load_weights(model)
                stats["by name"].append(engines["reload"].last_sync)
                equal &= all(way[-1].checksum == right for way in stats.values())
            pace = {size: paces(engines, model.config.vocab_size, size, replies) for size in BATCHES}
        finally:
            for engine in engines.values():
                engine.close()
    copy = statistics.median(copies[1:])
    seconds = {way: statistics.median(each.seconds for each in found[1:]) for way, found in stats.items()}
    return {
        "parameters": sum(tensor.numel() for tensor in own.values()),
        "updates": updates + 1,
        "difference": difference,
        "checksums_equal": equal,
        "bytes_ratio": stats["in place"][-1].bytes / whole,
        "transfers": stats["in place"][-1].transfers,
        "copy_seconds": copy,
        **{f"{way} seconds": found for way, found in seconds.items()},
        "moving": statistics.median(each.moving for each in stats["in place"][1:]) / copy,
        **{f"{way} ratio": found / copy for way, found in seconds.items()},
        **{f"pace {size}": found for size, found in pace.items()},
    }


def start(folder: Path, *, in_place: bool = True) -> VLLMEngine:
    """An engine, with weights in place or packed."""
    import_vllm()  # before anything of it is
    options = VLLMOptions(folder, MAX_LEN, kv_cache_mb=64, log=EngineLog(folder / "engine.log"))
    with patch.object(VLLMOptions, "in_place", in_place):
        return VLLMEngine(VLLMServer(options))


def paces(engines: dict[str, VLLMEngine], vocabulary: int, size: int, length: int) -> float:
    """How many times faster the engine with plain weights answers ``size`` requests: median of 5 turns."""
    rng = np.random.default_rng(size)
    asked = [Request(tuple(rng.integers(0, vocabulary, 32).tolist()), k, length) for k in range(size)]
    found = []
    for _ in range(6):
        took = {}
        for way, engine in engines.items():
            started = time.perf_counter()
            engine.generate(asked)
            took[way] = time.perf_counter() - started
        found.append(took["reload"] / took["in place"])
    return statistics.median(found[1:])


def change(model: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=generator)


def worst(engine: VLLMEngine, model: Any, seed: int, prompts: int) -> float:
    """Largest difference of a sampled token's log-prob between the engine and a plain forward pass."""
    rng = np.random.default_rng(seed)
    vocabulary = model.config.vocab_size
    asked = [Request(tuple(rng.integers(0, vocabulary, 32).tolist()), k, 48) for k in range(prompts)]
    found = 0.0
    for request, out in zip(asked, engine.generate(asked), strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*request.ids, *out.ids]])).logits[0, 31:-1].float()
        right = torch.log_softmax(logits, -1).gather(1, torch.tensor(out.ids)[:, None])[:, 0]
        found = max(found, float((right - torch.tensor(out.logprobs)).abs().max()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the tiny model alone, few updates")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    runs = (
        {"tiny": (4, 4, 32)}
        if args.quick
        else {"tiny": (9, 16, 48), "16 M": (9, 16, 48), "101 M": (5, 2, 12)}
    )
    found = {name: measure(name, *counts) for name, counts in runs.items()}
    table = Table(title="weights to vLLM on a CPU, fp32, one thread each")
    for column in ("", *found):
        table.add_column(column, justify="right" if column else "left")
    rows = {
        "parameters": ("parameters", "{:,}"),
        "updates checked": ("updates", "{}"),
        "largest |difference of log-probs|": ("difference", "{:.1e}"),
        "checksums equal, every time": ("checksums_equal", "{}"),
        "bytes sent / bytes of weights": ("bytes_ratio", "{:.3f}"),
        "transfers": ("transfers", "{}"),
        "a plain copy, seconds": ("copy_seconds", "{:.5f}"),
        "in place, seconds": ("in place seconds", "{:.4f}"),
        "reload, seconds": ("reload seconds", "{:.4f}"),
        "reload by name, seconds": ("by name seconds", "{:.4f}"),
        "in place: plain copies until the weights are there": ("moving", "{:.2f}"),
        "in place: plain copies until digests are compared": ("in place ratio", "{:.2f}"),
        "reload: plain copies": ("reload ratio", "{:.1f}"),
        "reload by name: plain copies": ("by name ratio", "{:.1f}"),
        **{f"tokens/s in place / packed, {size} at once": (f"pace {size}", "{:.2f}") for size in BATCHES},
    }
    for title, (key, form) in rows.items():
        table.add_row(title, *(form.format(row[key]) for row in found.values()))
    Console(width=110).print(table)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
