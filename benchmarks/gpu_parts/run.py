"""A whole run with a checkpoint and a resume."""

from __future__ import annotations

import time

from gpu_parts.figure import Figure, at_most
from gpu_parts.package import need
from gpu_parts.where import Where

VLLM = ("engine.name=vllm", "engine.kv_cache_mb=32", "engine.eager=true")
"""Two steps are over before a compiled model would have started."""
BF16 = ("optim.dtype=bf16", "optim.zero_stage=2")


def run_hf(where: Where) -> list[Figure]:
    return _run(where, "engine.name=hf")


def run_offload(where: Where) -> list[Figure]:
    """The optimizer's state in main memory: DeepSpeed compiles its Adam for the CPU first."""
    return _run(where, "engine.name=hf", *BF16, "optim.offload=true", limit=0.05)


def run_vllm(where: Where) -> list[Figure]:
    need("vllm")
    return _run(where, *VLLM)


def run_vllm_bf16(where: Where) -> list[Figure]:
    """One policy per agent on one card: three engines sleep while the learners train in bf16."""
    need("vllm")
    return _run(where, *VLLM, *_taking_turns(where), *BF16, "policies.map=separate", limit=0.05)


def run_vllm_lora(where: Where) -> list[Figure]:
    """Three adapters on one base and one engine, which sleeps while the learner trains."""
    need("vllm")
    return _run(where, *VLLM, *_taking_turns(where), "policies.map=lora", "lora.rank=8", limit=0.05)


def _taking_turns(where: Where) -> list[str]:
    """Engine and learner on one card; adapters need an engine in half precision there."""
    return ["engine.sleep=true", "engine.dtype=bf16"] if where.device == "cuda" else []


def _run(where: Where, *options: str, limit: float = 0.01) -> list[Figure]:
    """A whole run of ``demo``, very small: warm start, two steps, evaluations, checkpoint, resume.

    ``limit``: on the mean difference between the log-probs of the sampler and those of the learner.
    """
    from mappa_rl.config import load_config
    from mappa_rl.telemetry.sinks import read_metrics
    from mappa_rl.training.trainer import train

    small = ["model.hidden=64", "model.layers=2", "warmstart.episodes=40", "warmstart.steps=10"]
    small += ["warmstart.warmup_steps=1", "rollout.episodes_per_step=8", "rollout.max_new_tokens=12"]
    small += ["env.sandbox=calculator", "eval.episodes=2", "eval.calibration_temperatures=[]"]
    small += ["run.tensorboard=false", "policies.map=shared", *options]
    out = where.scratch / "run"
    began = time.perf_counter()
    train(load_config("demo", [*small, "run.steps=1"]), out)
    train(load_config("demo", [*small, "run.steps=2"]), out, resume=True)
    rows = read_metrics(out)
    gaps = [value for row in rows for name, value in row.items() if name.startswith("mismatch/")]
    check = at_most(max(gaps), limit, "log-probs of sampler and learner")
    return [(f"two steps and a resume, {len(rows)} rows", f"{time.perf_counter() - began:.0f} s", check)]
