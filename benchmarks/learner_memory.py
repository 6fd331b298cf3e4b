"""Peak memory of one update of the learner: logits whole or in chunks, layers kept or recomputed.

One forward and backward pass of a random Qwen3 over one packed micro-batch, every token scored, each variant
in a process of its own. Peak: on a CPU the growth of the process's largest resident size over what it was
before the pass (``ru_maxrss``), on a GPU what torch had allocated at most, less what it had before; gradients
are in both. Seconds: median of the passes after the first.

    python benchmarks/learner_memory.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import Qwen3Config, Qwen3ForCausalLM

from mappa_rl.config import Optim
from mappa_rl.learner.forward import Scorer
from mappa_rl.learner.packing import pack
from mappa_rl.types import Sample, Span


class Variant(NamedTuple):
    """``chunked`` False: all logits at once."""

    chunked: bool
    recompute: bool
    dtype: str


VARIANTS = {
    "all logits at once": Variant(False, False, "float32"),
    "logits in chunks": Variant(True, False, "float32"),
    "chunks, recomputed layers": Variant(True, True, "float32"),
    "all logits at once, bf16": Variant(False, False, "bfloat16"),
    "chunks, recomputed layers, bf16": Variant(True, True, "bfloat16"),
}


def measure(variant: Variant, tokens: int, vocabulary: int, layers: int, passes: int) -> dict[str, float]:
    """Peak (MB), median seconds, and the log-probs' sum, by which variants can be compared."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=256,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        intermediate_size=768,
        tie_word_embeddings=True,
    )
    model = Qwen3ForCausalLM(config).to(device, getattr(torch, variant.dtype)).eval()
    chunk = None if variant.chunked else tokens * vocabulary
    scorer = Scorer(model, Optim(gradient_checkpointing=variant.recompute), temperature=1.0, chunk=chunk)
    batch = pack(*_samples(tokens, vocabulary))
    scorer(pack(*_samples(64, vocabulary))).logprobs.sum().backward()  # gradients' memory, and code loaded
    model.zero_grad(set_to_none=False)
    before, seconds, total = _now(device), [], 0.0
    for _ in range(passes):
        started = time.perf_counter()
        logprobs = scorer(batch).logprobs
        total = float(logprobs.detach().sum())
        logprobs.mean().backward()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
        del logprobs
    return {
        "peak_mb": (_peak(device) - before) / 1e6,
        "seconds": statistics.median(seconds[1:] or seconds),
        "logprobs": total,
    }


def _samples(tokens: int, vocabulary: int) -> tuple[list[Sample], list[np.ndarray]]:
    """Sequences of 512 tokens at most, all but the first token of each scored."""
    rng = np.random.default_rng(0)
    samples = []
    for start in range(0, tokens, 512):
        size = min(512, tokens - start)
        mask = np.ones(size, np.bool_)
        mask[0] = False
        ids = rng.integers(0, vocabulary, size)
        samples.append(Sample(ids, mask, np.zeros(size, np.float32), (Span(1, size, 0.0, True),), "p", "a_0"))
    return samples, [sample.action_mask.astype(np.float32) for sample in samples]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _peak(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small batch and vocabulary")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # what the processes are started with
    args = parser.parse_args()
    sizes = (2048, 32_000, 1, 1) if args.quick else (2048, 64_000, 4, 2)
    if args.only:
        print(json.dumps(measure(VARIANTS[args.only], *sizes)))
        return
    found = {}
    for name in VARIANTS:
        command = [sys.executable, __file__, "--only", name, *(["--quick"] if args.quick else [])]
        found[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    tokens, vocabulary, layers, _ = sizes
    device = "GPU" if torch.cuda.is_available() else "CPU"
    table = Table(
        title=f"{device}, {tokens:,} tokens, vocabulary {vocabulary:,}, {layers} layers of width 256"
    )
    for column in ("variant", "peak MB", "seconds"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for name, row in found.items():
        table.add_row(name, f"{row['peak_mb']:,.0f}", f"{row['seconds']:.2f}")
    Console(width=110).print(table)
    print(f"all logits in fp32: {tokens * vocabulary * 4 / 1e6:,.0f} MB")
    if args.json:
        args.json.write_text(json.dumps({"sizes": sizes, "device": device, "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
