"""What it costs to bring new weights from the learner to vLLM in another process, and whether they arrive.

A random Qwen3 in fp32 is changed again and again, sent to a vLLM engine on a CPU (in buckets, through shared
memory), and asked for log-probs of sampled tokens, which are compared with a plain forward pass of the
learner's module. In the same run and in turns: a plain copy of the same weights within the learner's process,
the same weights sent with one call per parameter, as trainers do that update an engine name by name, and
vLLM's own reload of them within its worker, without transport or digests: what no update on a CPU undercuts.

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
from mappa_rl.engines.vllm import VLLMEngine
from mappa_rl.engines.vllm_options import VLLMOptions, import_vllm
from mappa_rl.engines.vllm_server import VLLMServer

SIZES = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 192, "vocab_size": 512},
    "16 M": {"hidden_size": 384, "num_hidden_layers": 9, "intermediate_size": 1152, "vocab_size": 4096},
}
MAX_LEN = 512


def make(name: str) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        **SIZES[name], num_attention_heads=8, num_key_value_heads=4, head_dim=32, initializer_range=0.08,
        max_position_embeddings=MAX_LEN, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def measure(name: str, updates: int, prompts: int) -> dict[str, Any]:
    """All figures of one model; seconds are medians over ``updates``."""
    model = make(name)
    whole = sum(tensor.nbytes for tensor in sync.named_weights(model).values())
    twin = {name: tensor.clone() for name, tensor in sync.named_weights(model).items()}
    plain, ours, each, floor, difference, equal = [], [], [], [], 0.0, True
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        server = timed_server(Path(folder))
        engine = VLLMEngine(server)
        try:
            for update in range(updates + 1):
                change(model, update)
                weights = sync.named_weights(model)
                started = time.perf_counter()
                for key, tensor in weights.items():
                    twin[key].copy_(tensor)
                plain.append(time.perf_counter() - started)
                with patch.object(sync, "buckets", lambda sizes: [[key] for key in sizes]):
                    engine.load_weights(model)
                each.append(engine.last_sync)
                change(model, update + 1000)
                engine.load_weights(model)
                ours.append(engine.last_sync)
                sent = server._sender.layout(list(weights))  # where the update has just written them
                floor += server.workers("own_load", sent)
                own = {key: digest(tensor) for key, tensor in sync.named_weights(model).items()}
                equal &= engine.last_sync.checksum == combined(own)
                difference = max(difference, worst(engine, model, update, prompts))
        finally:
            engine.close()
    seconds = statistics.median(plain[1:])
    found = statistics.median(stats.seconds for stats in ours[1:])
    return {
        "parameters": sum(tensor.numel() for tensor in twin.values()),
        "updates": updates + 1,
        "difference": difference,
        "checksums_equal": equal,
        "bytes_ratio": ours[-1].bytes / whole,
        "transfers": ours[-1].transfers,
        "seconds": found,
        "copy_seconds": seconds,
        "ratio": found / seconds,
        "own_load_seconds": statistics.median(floor[1:]),
        "own_load_ratio": statistics.median(
            stats.seconds / own for stats, own in zip(ours[1:], floor[1:], strict=True)
        ),
        "per_parameter_transfers": each[-1].transfers,
        "per_parameter_seconds": statistics.median(stats.seconds for stats in each[1:]),
    }


def timed_server(folder: Path) -> Any:
    """A server whose worker can time vLLM's own reload."""
    import_vllm()  # before anything of it is
    from vllm_own_load import EXTENSION

    with patch("mappa_rl.engines.vllm_worker.EXTENSION", EXTENSION):
        return VLLMServer(VLLMOptions(folder, MAX_LEN, kv_cache_mb=64))


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
    found = {
        name: measure(name, *((4, 4) if args.quick else (9, 16)))
        for name in list(SIZES)[: 1 if args.quick else 2]
    }
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
        "seconds": ("seconds", "{:.4f}"),
        "seconds of a plain copy": ("copy_seconds", "{:.5f}"),
        "times a plain copy": ("ratio", "{:.1f}"),
        "seconds of vLLM's own load of the same tensors": ("own_load_seconds", "{:.4f}"),
        "times vLLM's own load": ("own_load_ratio", "{:.2f}"),
        "one call per parameter: transfers": ("per_parameter_transfers", "{}"),
        "one call per parameter: seconds": ("per_parameter_seconds", "{:.4f}"),
    }
    for title, (key, form) in rows.items():
        table.add_row(title, *(form.format(row[key]) for row in found.values()))
    Console(width=110).print(table)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
