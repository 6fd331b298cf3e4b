"""A run whose coach gives no scores stops, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from mappa_rl.config import load_config
from mappa_rl.errors import RunError
from mappa_rl.training.trainer import train


@pytest.mark.slow
def test_a_run_without_scores_stops_and_goes_on_when_they_come(tmp_path: Path) -> None:
    small = [
        "model.hidden=32",
        "model.layers=1",
        "model.mlp=64",
        "warmstart.episodes=20",
        "warmstart.steps=2",
        "warmstart.warmup_steps=1",
        "rollout.episodes_per_step=4",
        "rollout.max_new_tokens=8",
        "eval.episodes=2",
        "eval.calibration_episodes=2",
        "run.steps=1",
        "run.torch_threads=1",
        "run.tensorboard=false",
    ]
    config = load_config("demo", [*small, "env.coach=off"])
    with pytest.raises(RunError, match=r"100%.*max_masked_fraction.*the coach is off"):
        train(config, tmp_path)
    allowed = load_config("demo", [*small, "env.coach=off", "rollout.max_masked_fraction=1.0"])
    assert train(allowed, tmp_path / "allowed") == tmp_path / "allowed"
