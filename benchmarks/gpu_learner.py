"""One learner step of a model of about 1 B parameters on one GPU: throughput, MFU, time by kind of work.

A random Qwen3-1.7B cut to 14 layers, bf16 with fp32 weights for the optimizer (ZeRO 2), recorded rollouts of
long-tailed lengths in packs of 8,192 tokens, ``Learner.step`` whole. Then gradients of a tiny model are
compared: in fp32 on the GPU and on the CPU, and in bf16 by flash attention and by one SDPA a segment.

Model FLOPs of a step, forward and backward (recomputation to save memory does not count):

    6 P N  +  6 V d M  +  6 L H D sum_i s_i^2

P: parameters of the decoder layers, N: tokens, V: vocabulary, d: width, M: scored tokens, L: layers, H: heads
of dimension D, s_i: lengths of sequences (causal: half of the square). MFU is the fraction of the peak: 989
TFLOP/s, dense bf16 of an H100 or H200 SXM.

    python benchmarks/gpu_learner.py [--quick] [--json PATH]
    python benchmarks/gpu_learner.py --shape tiny --device cpu     # the same code without a GPU
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile
from transformers import Qwen3Config, Qwen3ForCausalLM

from mappa_rl.config import Algo, Optim
from mappa_rl.learner.attention import Kernel
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.forward import Scorer
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.learner.packing import pack
from mappa_rl.types import Floats, Sample, Span

PEAK = 989e12
"""FLOP/s, dense bf16, H100 and H200 SXM."""


class Shape(NamedTuple):
    """Qwen3's sizes, the ``pack`` in tokens, ``packs`` a step, and the longest sequence."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocabulary: int
    pack: int
    packs: int
    longest: int


SHAPES = {
    "1b": Shape(2048, 14, 16, 8, 128, 6144, 151_936, 8192, 4, 4096),
    "tiny": Shape(64, 2, 4, 2, 16, 128, 512, 512, 2, 256),
}


def make_model(shape: Shape, dtype: torch.dtype, device: str) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.mlp,
        max_position_embeddings=shape.longest,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    with torch.device(device):
        model = Qwen3ForCausalLM(config).eval()
    for parameter in model.parameters():  # not buffers: rotary frequencies in bf16 mislead far tokens
        parameter.data = parameter.data.to(dtype)
    model.config.dtype = dtype
    return model


def make_samples(shape: Shape) -> tuple[list[Sample], list[Floats], list[Floats]]:
    """Sequences of lognormal lengths that fill ``packs`` packs; the last three quarters are an action."""
    rng = np.random.default_rng(0)
    samples: list[Sample] = []
    for _ in range(shape.packs):
        room = shape.pack
        while room:
            size = min(room, shape.longest, max(8, int(np.exp(rng.normal(np.log(shape.longest / 5), 0.9)))))
            size = room if room - size < 8 else size  # no crumbs
            start = size // 4
            mask = np.arange(size) >= start
            logprobs = np.where(mask, -np.log(shape.vocabulary), 0).astype(np.float32)
            spans = (Span(start, size, 0.0, True),)
            samples.append(Sample(rng.integers(0, shape.vocabulary, size), mask, logprobs, spans, "p", "a_0"))
            room -= size
    advantages = [(s.action_mask * rng.normal()).astype(np.float32) for s in samples]
    return samples, advantages, [s.action_mask.astype(np.float32) for s in samples]


def flops(model: Any, shape: Shape, samples: list[Sample]) -> float:
    """Model FLOPs of a step, by the formula at the top of this file."""
    layers = sum(p.numel() for p in model.model.layers.parameters())
    lengths = np.array([len(s) for s in samples], np.float64)
    scored = sum(int(s.action_mask.sum()) for s in samples)
    attention = shape.layers * shape.heads * shape.head_dim * float((lengths**2).sum())
    return 6 * (layers * float(lengths.sum()) + shape.vocabulary * shape.width * scored + attention)


def kind_of(name: str, sizes: str, vocabulary: int) -> str:
    """The purpose of an operator, judged by its name and the shapes of its inputs."""
    if "adam" in name or "foreach" in name or "_fused" in name:
        return "optimizer"
    if "attention" in name or "varlen" in name:
        return "attention"
    if str(vocabulary) in sizes and "embedding" not in name:
        return "head"
    return "gemm" if name.removeprefix("aten::") in ("mm", "addmm", "bmm", "linear", "matmul") else "other"


def where_time_goes(learner: Learner, batch: Any, vocabulary: int, device: str) -> dict[str, float]:
    """Seconds of a step by kind: kernels on a GPU, operators on a CPU; ``idle``: the GPU was idle."""
    cuda = device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities, record_shapes=True) as found:
        started = time.perf_counter()
        learner.step(Batch(*batch), Objective(Algo()))
        synchronise(device)
        wall = time.perf_counter() - started
    out = dict.fromkeys(("attention", "gemm", "head", "optimizer", "other"), 0.0)
    for row in found.key_averages(group_by_input_shape=True):
        spent = row.self_device_time_total if cuda else row.self_cpu_time_total
        if cuda and str(row.device_type).endswith("CUDA"):
            continue  # kernels, which count with the operator that started them
        out[kind_of(row.key, str(row.input_shapes), vocabulary)] += spent / 1e6
    if cuda:
        out["idle"] = max(0.0, wall - sum(out.values()))
    return out


def gradient(device: str, dtype: torch.dtype, kernel: Kernel) -> torch.Tensor:
    """[parameters]: of the tiny model, on the CPU in fp64."""
    shape = SHAPES["tiny"]
    model = make_model(shape, dtype, "cpu").to(device)
    samples, advantages, weights = make_samples(shape)
    half = dtype is not torch.float32
    optim = Optim(attention=kernel, dtype="bf16" if half else "fp32", zero_stage=1 if half else 0)
    scores = Scorer(model, optim, temperature=1.0)(pack(samples, weights, advantages))
    weighed = torch.from_numpy(
        np.concatenate([a[s.action_mask] for a, s in zip(advantages, samples, strict=True)])
    )
    (scores.logprobs * weighed.to(device)).mean().backward()
    return torch.cat([p.grad.flatten().double().cpu() for p in model.parameters()])


def differences(device: str) -> dict[str, float]:
    """Norm of the difference of two gradients over the norm of the first."""
    torch.backends.cuda.matmul.allow_tf32 = False
    pairs = {f"fp32: cpu and {device}": (("cpu", torch.float32, "sdpa"), (device, torch.float32, "sdpa"))}
    half = (device, torch.bfloat16, "sdpa")
    pairs["fp32 and bf16, one SDPA a segment"] = ((device, torch.float32, "sdpa"), half)
    if device == "cuda":
        pairs["bf16: flash and one SDPA a segment"] = ((device, torch.bfloat16, "flash"), half)
    out = {}
    for name, (one, other) in pairs.items():
        right, found = gradient(*one), gradient(*other)  # type: ignore[arg-type]
        out[name] = float((right - found).norm() / right.norm())
    return out


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure(shape: Shape, device: str, steps: int, *, recompute: bool = False) -> dict[str, Any]:
    model = make_model(shape, torch.bfloat16, device)
    batch = make_samples(shape)
    work, tokens = flops(model, shape, batch[0]), sum(map(len, batch[0]))
    learner = Learner(
        model,
        Optim(
            zero_stage=2,
            minibatches=1,
            tokens_per_micro_batch=shape.pack,
            gradient_checkpointing=recompute,
        ),
        Schedule(1e-6, "constant", warmup=0, total=0, floor=0.0),
        temperature=1.0,
        critic=False,
        seed=0,
    )
    seconds = []
    for _ in range(steps + 2):  # two to warm up
        synchronise(device)
        started = time.perf_counter()
        learner.step(Batch(*batch), Objective(Algo()))
        synchronise(device)
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds[2:])
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    known = ("H100" in name or "H200" in name) and "PCIe" not in name
    return {
        "device": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": tokens,
        "sequences": len(batch[0]),
        "steps": steps,
        "seconds": median,
        "least": min(seconds[2:]),
        "most": max(seconds[2:]),
        "tokens_per_s": tokens / median,
        "tflops": work / 1e12,
        "mfu": work / median / PEAK if known else None,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None,
        "kinds": where_time_goes(learner, batch, shape.vocabulary, device),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="1b")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="three steps")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "There is no CUDA GPU here, so nothing was measured. Run this where there is one, or test the "
            "code with --shape tiny --device cpu."
        )
    if args.device == "cpu":
        torch.set_num_threads(1)
    found = measure(SHAPES[args.shape], args.device, 3 if args.quick else args.steps)
    found["differences"] = differences(args.device)
    found |= {"shape": args.shape, "torch": torch.__version__}
    table = Table(
        title=f"{found['device']}: {found['parameters'] / 1e6:,.1f} M parameters, {found['tokens']:,} tokens "
        f"in {found['sequences']} sequences, median of {found['steps']} steps"
    )
    for column in ("tokens/s", "seconds", "least-most", "TFLOP a step", "MFU", "peak GB"):
        table.add_column(column, justify="right")
    table.add_row(
        f"{found['tokens_per_s']:,.0f}",
        f"{found['seconds']:.3f}",
        f"{found['least']:.3f}-{found['most']:.3f}",
        f"{found['tflops']:,.4g}",
        "-" if found["mfu"] is None else f"{found['mfu']:.1%}",
        "-" if found["peak_gb"] is None else f"{found['peak_gb']:.1f}",
    )
    Console(width=110).print(table)
    total = sum(found["kinds"].values())
    print("time by kind:", ", ".join(f"{kind} {spent / total:.0%}" for kind, spent in found["kinds"].items()))
    for name, gap in found["differences"].items():
        print(f"gradients differ by {gap:.2g} of their norm ({name})")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
