"""Whole runs, very small: what the algorithms and losses do inside of one, and after a resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError
from mappa_rl.evaluation.summary import read_summary
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from paths import ROOT
from tiny_run import TINY

EXAMPLE = ROOT / "examples" / "algorithm.py"


def run(out: Path, *overrides: str, resume: bool = False) -> list[dict[str, float]]:
    train(load_config("demo", [*TINY, *overrides]), out, resume)
    return read_metrics(out)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The override that begins with a warm start made once."""
    out = tmp_path_factory.mktemp("start")
    run(out, "run.steps=0")
    return f"warmstart.path={out / 'warmstart'}"


@pytest.mark.slow
def test_the_example_trains_the_demo(start: str, tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    rows = run(tmp_path, start, "run.steps=2", f"algo.name={EXAMPLE}:MedianBaseline", "algo.options.keep=0.9")
    assert [row["updates/solver_0"] for row in rows] == [2, 2]
    assert any(row["grad_norm/solver_0"] > 0 for row in rows)


@pytest.mark.slow
def test_a_running_baseline_goes_on_after_a_resume(start: str, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", start, "run.steps=2", "algo.name=ema")
    run(tmp_path / "cut", start, "run.steps=1", "algo.name=ema")
    state = json.loads((tmp_path / "cut/checkpoints/step-000001/state.json").read_text())
    assert set(state["algorithm"]) == {"solver_0", "coder_0", "verifier_0"}
    first = read_summary(tmp_path / "cut")
    resumed = run(tmp_path / "cut", start, "run.steps=2", "algo.name=ema", resume=True)
    assert resumed[1]["loss/solver_0"] == whole[1]["loss/solver_0"]
    both = read_summary(tmp_path / "cut")
    assert first is not None
    assert both is not None
    assert both.phases["before, T=1"] >= first.phases["before, T=1"] > 0
    assert both.phases["training"] > first.phases["training"] > 0
    divided = sum(sum(cells.values()) for cells in both.work.values())
    assert both.wall_seconds == pytest.approx(divided, rel=0.05)


@pytest.mark.slow
def test_groups_filters_losses_and_corrections_go_together(start: str, tmp_path: Path) -> None:
    rows = run(
        tmp_path,
        start,
        "run.steps=2",
        "algo.name=gigpo",
        "rollout.group_size=4",
        "algo.loss=gspo",
        "algo.kl=loss_k2",
        "algo.importance_sampling=icepop",
        "algo.drop_zero_variance_groups=true",
        "algo.overlong_penalty=2",
        "algo.overlong_buffer=8",
        "optim.epochs=2",
    )
    trained = [row for row in rows if "kl_loss/solver_0" in row]
    assert trained
    for row in trained:
        assert row["importance_weight/solver_0"] == pytest.approx(1, abs=0.01)
        assert row["mismatch_max/solver_0"] < 0.01
        assert 0 <= row["zero_variance_groups/solver_0"] <= 1
        assert 0 <= row["overlong/solver_0"] <= 1


def test_policies_have_learning_rates_of_their_own(start: str, tmp_path: Path) -> None:
    one = (start, "run.steps=1", "optim.lr=1e-4", "policies.frozen=[verifier_0]")
    (row,) = run(tmp_path / "run", *one, "policies.lr={coder_0: 3e-4}")
    assert row["lr/coder_0"] == pytest.approx(3e-4)
    assert row["lr/solver_0"] == pytest.approx(1e-4)
    assert "lr/verifier_0" not in row
    for wrong, hint in (("solver", "solver_0"), ("verifier_0", "trained policies: ")):
        with pytest.raises(ConfigError, match=hint):
            run(tmp_path / wrong, *one, f"policies.lr={{{wrong}: 1e-3}}")
