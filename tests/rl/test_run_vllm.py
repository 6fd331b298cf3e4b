"""A whole run, very small, whose policies are played by vLLM, and its resume."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_helpers import needs_vllm

from mappa_rl.config import load_config
from mappa_rl.sinks import read_metrics
from mappa_rl.trainer import train

TINY = [
    "engine.name=vllm", "engine.kv_cache_mb=32", "policies.map=shared", "optim.zero_stage=3",
    "warmstart.episodes=40", "warmstart.steps=10", "warmstart.warmup_steps=1", "model.hidden=32",
    "model.layers=1", "model.mlp=64", "rollout.episodes_per_step=6", "rollout.max_new_tokens=12",
    "env.sandbox=calculator", "eval.episodes=2", "eval.calibration_temperatures=[]", "run.tensorboard=false",
]  # fmt: skip


@needs_vllm
@pytest.mark.slow
def test_a_run_on_vllm_goes_on_after_a_resume(tmp_path: Path) -> None:
    train(load_config("demo", [*TINY, "run.steps=2"]), tmp_path)
    out = train(load_config("demo", [*TINY, "run.steps=3", "optim.lr=0.01"]), tmp_path, resume=True)
    rows = read_metrics(out)
    assert len(rows) == 3
    # Sampler and learner agree in each step, also in the first one after the resume: the weights arrived.
    assert all(row["mismatch/shared"] < 1e-3 for row in rows)
    size = (out / "warmstart" / "model.safetensors").stat().st_size
    for row in rows:
        assert 0.9 * size < row["sync/bytes"] < 1.1 * size
        assert 1 <= row["sync/transfers"] <= 16
        assert row["sync/seconds"] > 0
    assert (out / "report.html").is_file() or (out / "summary.json").is_file()
