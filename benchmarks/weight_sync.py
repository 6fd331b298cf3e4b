"""Measure the cost of sending new weights from the learner to vLLM, and check that they arrive.

Changes a random Qwen3 in fp32 repeatedly, sends it to a vLLM engine on a CPU, and compares the log-probs of
sampled tokens with a plain forward pass of the learner's module. One run takes turns with:

    in place        weights are written where the engine computes with them, and digests compared
    reload          the same through vLLM's layer-by-layer reload, which packs them for oneDNN
    reload, by name the reload with one call per parameter, as some trainers do
    a plain copy    of the same weights within the learner's process

Both engines then answer the same requests, which shows the cost of plain weights relative to packed ones.

    python benchmarks/weight_sync.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import Qwen3Config, Qwen3ForCausalLM

from mappa_rl.config import load_config
from mappa_rl.engines.base import Request
from mappa_rl.engines.vllm.engine import VLLMEngine
from mappa_rl.engines.vllm.log import EngineLog
from mappa_rl.engines.vllm.options import VLLMOptions, import_vllm
from mappa_rl.engines.vllm.server import VLLMServer
from mappa_rl.engines.weights import base as sync
from mappa_rl.engines.weights.digest import combined, digest

SIZES = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 192, "vocab_size": 512},
    "16 M": {"hidden_size": 384, "num_hidden_layers": 9, "intermediate_size": 1152, "vocab_size": 4096},
    "101 M": {"hidden_size": 768, "num_hidden_layers": 16, "intermediate_size": 2304, "vocab_size": 8192},
}
MAX_LEN = 512
BATCHES = (1, 8, 32, 64)  # requests at once


@dataclass(frozen=True)
class Way:
    """One way to send weights: ``seconds`` until digests are compared, ``ratio`` to those of a plain copy."""

    seconds: float
    ratio: float

    @classmethod
    def of(cls, found: Sequence[sync.SyncStats], copy: float) -> Self:
        """The median without the first update, which warms up; ``copy``: seconds of a plain copy."""
        seconds = statistics.median(each.seconds for each in found[1:])
        return cls(seconds, seconds / copy)


@dataclass(frozen=True)
class Figures:
    """All figures of one model.

    ``difference``: the largest of log-probs. ``moving``: plain copies until the weights are in place.
    ``paces``: requests at once -> tokens per second of plain weights relative to packed ones.
    """

    parameters: int
    updates: int
    difference: float
    checksums_equal: bool
    bytes_ratio: float
    transfers: int
    copy_seconds: float
    in_place: Way
    reload: Way
    by_name: Way
    moving: float
    paces: dict[int, float]


def make(name: str) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        **SIZES[name],
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        initializer_range=0.04,
        max_position_embeddings=MAX_LEN,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config).eval()


def measure(name: str, updates: int, prompts: int, replies: int) -> Figures:
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
                with patch(
                    "mappa_rl.engines.weights.shared_memory.buckets", lambda sizes: [[key] for key in sizes]
                ):
                    engines["reload"].load_weights(model)
                stats["by name"].append(engines["reload"].last_sync)
                equal &= all(way[-1].checksum == right for way in stats.values())
            pace = {size: paces(engines, model.config.vocab_size, size, replies) for size in BATCHES}
        finally:
            for engine in engines.values():
                engine.close()
    copy = statistics.median(copies[1:])
    return Figures(
        parameters=sum(tensor.numel() for tensor in own.values()),
        updates=updates + 1,
        difference=difference,
        checksums_equal=equal,
        bytes_ratio=stats["in place"][-1].bytes / whole,
        transfers=stats["in place"][-1].transfers,
        copy_seconds=copy,
        in_place=Way.of(stats["in place"], copy),
        reload=Way.of(stats["reload"], copy),
        by_name=Way.of(stats["by name"], copy),
        moving=statistics.median(each.moving for each in stats["in place"][1:]) / copy,
        paces=pace,
    )


def start(folder: Path, *, in_place: bool = True) -> VLLMEngine:
    """An engine, with weights in place or packed."""
    import_vllm()  # before anything of it is
    lengths = [f"model.max_len={MAX_LEN}", f"rollout.max_context={MAX_LEN}"]
    config = load_config("demo", ["engine.name=vllm", "engine.kv_cache_mb=64", *lengths])
    options = VLLMOptions(folder, config, log=EngineLog(folder / "engine.log"))
    with patch.object(VLLMOptions, "in_place", in_place):
        return VLLMEngine(VLLMServer(options))


def paces(engines: dict[str, VLLMEngine], vocabulary: int, size: int, length: int) -> float:
    """How many times faster the engine with plain weights answers ``size`` requests: median of 5 turns."""
    rng = np.random.default_rng(size)
    asked = [
        Request(tuple(rng.integers(0, vocabulary, 32).tolist()), k, length, 1.0, (), 1.0) for k in range(size)
    ]
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
    asked = [
        Request(tuple(rng.integers(0, vocabulary, 32).tolist()), k, 48, 1.0, (), 1.0) for k in range(prompts)
    ]
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
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
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
    rows: dict[str, Callable[[Figures], str]] = {
        "parameters": lambda f: f"{f.parameters:,}",
        "updates checked": lambda f: f"{f.updates}",
        "largest |difference of log-probs|": lambda f: f"{f.difference:.1e}",
        "checksums equal, every time": lambda f: f"{f.checksums_equal}",
        "bytes sent / bytes of weights": lambda f: f"{f.bytes_ratio:.3f}",
        "transfers": lambda f: f"{f.transfers}",
        "a plain copy, seconds": lambda f: f"{f.copy_seconds:.5f}",
        "in place, seconds": lambda f: f"{f.in_place.seconds:.4f}",
        "reload, seconds": lambda f: f"{f.reload.seconds:.4f}",
        "reload by name, seconds": lambda f: f"{f.by_name.seconds:.4f}",
        "in place: plain copies until the weights are there": lambda f: f"{f.moving:.2f}",
        "in place: plain copies until digests are compared": lambda f: f"{f.in_place.ratio:.2f}",
        "reload: plain copies": lambda f: f"{f.reload.ratio:.1f}",
        "reload by name: plain copies": lambda f: f"{f.by_name.ratio:.1f}",
    }
    for size in BATCHES:
        rows[f"tokens/s in place / packed, {size} at once"] = lambda f, size=size: f"{f.paces[size]:.2f}"
    for title, cell in rows.items():
        table.add_row(title, *map(cell, found.values()))
    Console(width=110).print(table)
    if args.json:
        args.json.write_text(
            json.dumps({name: asdict(each) for name, each in found.items()}, indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
