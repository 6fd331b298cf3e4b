"""The recipe of a real model on four nodes: adapters, two replicas of vLLM, two learner processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from architectures import write_model
from engine_helpers import needs_vllm
from killing import HERE
from mappa_rl.cli import main
from mappa_rl.telemetry.sinks import read_metrics
from paths import ROOT
from ray_cluster import nodes
from runs_on_ray import on

AGENTS = ("solver_0", "coder_0", "verifier_0")
SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct"
SMALL = (
    "rollout.episodes_per_step=8",
    f"env.coach={HERE / 'length_coach.py'}:LengthCoach",  # its scores differ, so that every group teaches
    "warmstart.steps=0",
    "eval.episodes=4",
    "eval.calibration_temperatures=[]",
    "run.steps=2",
    "run.torch_threads=1",
    "run.tensorboard=false",
)


@needs_vllm
@pytest.mark.large
@pytest.mark.parametrize("real", [False, True], ids=["tiny", "SmolLM2"])
def test_smollm2_lora_trains_on_four_nodes(real: bool, tmp_path: Path) -> None:
    if real and not SMOLLM2.is_dir():
        pytest.skip("needs `make llm`")
    model = SMOLLM2 if real else write_model(tmp_path / "model", "llama")
    out = tmp_path / "run"
    with nodes(4, cpus=2) as cluster:
        placed = ("engine.name=vllm", "engine.replicas=2", "run.processes=2", *on(cluster))
        assert main(["train", "smollm2_lora", "--model", str(model), *SMALL, *placed, f"out={out}"]) == 0
    rows = read_metrics(out)
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row[f"grad_norm/{agent}"] > 0 for row in rows for agent in AGENTS)
    assert max(row[f"mismatch/{agent}"] for row in rows for agent in AGENTS) < 0.05
    assert {path.name for path in (out / "logs").glob("engine-*.log")} == {
        "engine-adapters.log",
        "engine-adapters-1.log",
    }
