"""A whole run, very small, whose policies are played by vLLM, and its resume."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from engine_helpers import needs_vllm
from mappa_rl.cli import main
from mappa_rl.config import load_config
from mappa_rl.engines.replicas import ReplicatedEngine
from mappa_rl.errors import ConfigError
from mappa_rl.rollout.records import read_step, recorded_steps
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from tiny_run import TINY
from two_models import write_other_model

SMALL = [
    *TINY,
    "engine.name=vllm",
    "engine.kv_cache_mb=32",
    "policies.map=shared",
    "optim.zero_stage=3",
    "rollout.episodes_per_step=6",
]
NOISE = re.compile(r"INFO|warning|\[W|Loading|vllm|leaked", re.IGNORECASE)
"""What vLLM, torch and Python write while an engine starts and ends."""


@needs_vllm
@pytest.mark.slow
def test_a_run_on_vllm_goes_on_after_a_resume(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(load_config("demo", [*SMALL, "run.steps=2"]), tmp_path)
    shown = "\n".join(capfd.readouterr())
    assert "training: 2 steps" in shown
    assert not NOISE.findall(shown)
    assert "EngineCore" in (tmp_path / "logs" / "engine-shared.log").read_text()
    out = train(load_config("demo", [*SMALL, "run.steps=3", "optim.lr=0.01"]), tmp_path, resume=True)
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
@pytest.mark.large
def test_replicas_share_the_episodes_and_get_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[int]()
    take = ReplicatedEngine._take

    def counted(engine: ReplicatedEngine, episode: str) -> int:
        place = take(engine, episode)
        asked[place] += 1
        return place

    monkeypatch.setattr(ReplicatedEngine, "_take", counted)
    out = train(load_config("demo", [*SMALL, "engine.replicas=2", "run.steps=2"]), tmp_path)
    assert min(asked[0], asked[1]) > 0.3 * asked.total()
    rows = read_metrics(out)
    size = (out / "warmstart" / "model.safetensors").stat().st_size
    for row in rows:
        assert row["mismatch/shared"] < 1e-3  # both sampled with the learner's weights
        assert 1.8 * size < row["sync/bytes"] < 2.2 * size
    logs = {path.name for path in (out / "logs").glob("engine-*.log")}
    assert logs == {"engine-shared.log", "engine-shared-1.log"}


@needs_vllm
@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(
            [
                "policies.map={solver_0: solver, coder_0: maker, verifier_0: maker}",
                "placement.engines={maker: {replicas: 2}}",
                "optim.zero_stage=3",
            ],
            id="one engine and two replicas of another, weights in parts",
            marks=pytest.mark.large,
        ),
        pytest.param(
            ["policies.map=shared", "optim.zero_stage=2", "engine.tensor_parallel=2"],
            id="one engine of two workers",
        ),
        pytest.param(
            ["policies.map=shared", "optim.zero_stage=3", "engine.replicas=2"],
            id="two replicas, weights in parts",
        ),
    ],
)
def test_two_processes_train_what_vllm_plays(overrides: list[str], tmp_path: Path) -> None:
    """Under a launcher, whose variables engines must not see; the weights that arrive are the learner's."""
    run = [*SMALL, *overrides, "run.processes=2", "run.steps=2", f"out={tmp_path / 'run'}"]
    assert main(["train", "demo", *run]) == 0
    rows = read_metrics(tmp_path / "run")
    assert len(rows) == 2
    mismatches = [value for row in rows for name, value in row.items() if name.startswith("mismatch/")]
    first = [path for path in (tmp_path / "run" / "logs").glob("engine-*.log") if path.stem[-2:] != "-1"]
    assert len(mismatches) == 2 * len(first)
    assert max(mismatches) < 1e-3


@needs_vllm
@pytest.mark.slow
def test_an_engine_that_is_killed_costs_a_run_no_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mappa_rl.engines.vllm.server import VLLMServer

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
    out = train(load_config("demo", [*SMALL, *steps]), tmp_path)
    assert [count() for count in restarts] == [1]
    played = [read_step(path).rollouts for path in recorded_steps(out)]
    assert [len(step) for step in played] == [6, 6]
    assert {rollout.ended for step in played for rollout in step} == {"done"}
    assert len({rollout.seed for step in played for rollout in step}) == 12  # none lost, none twice
    assert all(row["mismatch/shared"] < 1e-3 for row in read_metrics(out))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["engine.sleep=true"], "engine.sleep does nothing with engine.name=hf"),
        (
            ["engine.name=vllm", "engine.devices=[1, 2]"],
            "must list exactly 1 GPUs: replicas=1 times tensor_parallel=1; found 2",
        ),
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
    with pytest.raises(ConfigError, match="needs GPUs"):
        train(load_config("demo", ["engine.name=vllm", override]), tmp_path / "run")
    assert not (tmp_path / "run" / "warmstart").exists()


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed here")
def test_without_vllm_a_run_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pip install 'vllm"):
        train(load_config("demo", ["engine.name=vllm"]), tmp_path / "run")


@needs_vllm
@pytest.mark.large
@pytest.mark.parametrize("refills", [pytest.param(False, marks=pytest.mark.large), True])
def test_adapters_on_two_models_with_the_options_of_papers(refills: bool, tmp_path: Path) -> None:
    """One server for each base; sampler and learner agree for both tokenizers, also after updates.

    A policy that can do nothing has equal rewards: its groups are replaced, or the bonus alone teaches.
    """
    other = write_other_model(tmp_path / "other")
    asked = [
        *TINY,
        "engine.name=vllm",
        "engine.kv_cache_mb=32",
        "policies.map=lora",
        f"policies.models={{coder_0: {other}}}",
        "lora.rank=8",
        "rollout.group_size=2",
        "algo.name=gigpo",
        "algo.loss=gspo",
        "algo.aggregation=sequence",
        "algo.entropy_coef=0.01",
        "algo.importance_sampling=tis",
        "run.steps=3",
        *(["rollout.refill_rounds=1", "algo.drop_zero_variance_groups=true"] if refills else []),
    ]
    train(load_config("demo", asked), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    if refills:
        assert sum(row["refilled_groups"] for row in rows) > 0
    else:
        assert all(row[f"grad_norm/{name}"] > 0 for row in rows for name in ("solver_0", "coder_0"))
    found = [value for row in rows for key, value in row.items() if key.startswith("mismatch/")]
    assert len(found) == 9
    assert max(found) < 1e-3
    logs = sorted(path.name for path in (tmp_path / "run" / "logs").iterdir())
    assert logs == ["engine-adapters-1.log", "engine-adapters.log"]
