"""A whole run with a checkpoint and a resume."""

from __future__ import annotations

import time

from gpu_parts.figure import Figure, at_most
from gpu_parts.package import need
from gpu_parts.where import Where


def run_hf(where: Where) -> list[Figure]:
    return _run(where, "engine.name=hf")


def run_vllm(where: Where) -> list[Figure]:
    need("vllm")
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
