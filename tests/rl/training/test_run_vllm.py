"""A whole run, very small, whose policies are played by vLLM, and its resume."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_helpers import needs_vllm

from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError, EngineError
from mappa_rl.records import read_step, recorded_steps
from mappa_rl.sinks import read_metrics
from mappa_rl.trainer import train

TINY = [
    "engine.name=vllm", "engine.kv_cache_mb=32", "policies.map=shared", "optim.zero_stage=3",
    "warmstart.episodes=40", "warmstart.steps=10", "warmstart.warmup_steps=1", "model.hidden=32",
    "model.layers=1", "model.mlp=64", "rollout.episodes_per_step=6", "rollout.max_new_tokens=12",
    "env.sandbox=calculator", "eval.episodes=2", "eval.calibration_temperatures=[]", "run.tensorboard=false",
]  # fmt: skip
NOISE = re.compile(r"INFO|warning|\[W|Loading|vllm|leaked", re.IGNORECASE)
"""What vLLM, torch and Python write while an engine starts and ends."""


@needs_vllm
@pytest.mark.slow
def test_a_run_on_vllm_goes_on_after_a_resume(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(load_config("demo", [*TINY, "run.steps=2"]), tmp_path)
    shown = "\n".join(capfd.readouterr())
    assert "training: 2 steps" in shown
    assert not NOISE.findall(shown)
    assert "EngineCore" in (tmp_path / "logs" / "engine-shared.log").read_text()
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
    assert (out / "summary.json").is_file()


@needs_vllm
@pytest.mark.slow
def test_an_engine_that_is_killed_costs_a_run_no_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mappa_rl.engines.vllm_server import VLLMServer

    submit, asked, restarts = VLLMServer.submit, [0], []

    def killing(self: VLLMServer, request: Any, limit: int, user: Any) -> Any:
        future = submit(self, request, limit, user)
        asked[0] += 1
        if asked[0] == 12:  # the one episode before training asks less often
            (process,) = self._llm.engine_core.resources.engine_manager.processes
            os.kill(process.pid, signal.SIGKILL)
            restarts.append(lambda: self.restarts)
        return future

    monkeypatch.setattr(VLLMServer, "submit", killing)
    steps = ["run.steps=2", "run.record_rollouts=true", "eval.episodes=1"]
    out = train(load_config("demo", [*TINY, *steps]), tmp_path)
    assert [count() for count in restarts] == [1]
    played = [read_step(path).rollouts for path in recorded_steps(out)]
    assert [len(step) for step in played] == [6, 6]
    assert {rollout.ended for step in played for rollout in step} == {"over"}
    assert len({rollout.seed for step in played for rollout in step}) == 12  # none lost, none twice
    assert all(row["mismatch/shared"] < 1e-3 for row in read_metrics(out))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["engine.sleep=true"], "engine.sleep does nothing with engine.name=hf"),
        (["engine.name=vllm", "engine.devices=[1, 2]"], "must be so many as engine.tensor_parallel=1"),
        (["optim.zero_stage=3"], "use engine.name=vllm"),
    ],
)
def test_settings_that_do_nothing_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("demo", overrides)


@needs_vllm
@pytest.mark.skipif(torch.cuda.is_available(), reason="these need no GPU to be refused")
@pytest.mark.parametrize("override", ["engine.sleep=true", "engine.devices=[1]"])
def test_what_needs_a_gpu_is_refused_before_anything_begins(override: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="needs GPUs"):
        train(load_config("demo", ["engine.name=vllm", override]), tmp_path / "run")
    assert not (tmp_path / "run" / "warmstart").exists()


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed here")
def test_without_vllm_a_run_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="pip install 'vllm"):
        train(load_config("demo", ["engine.name=vllm"]), tmp_path / "run")
