"""Evaluating a finished run again: stored results are reused only if the same episodes would be played."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mappa_rl.config import Config
from mappa_rl.evaluation.calibration import Calibration, read_calibration
from mappa_rl.evaluation.held_out import HeldOut
from mappa_rl.evaluation.results import load_results
from mappa_rl.evaluation.reuse import reuse_stored
from synthetic_run import make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    make_run(tmp_path / "run", steps=1, episodes=8, best=0.4)
    Calibration({0.4: 0.5, 1.0: 0.3}).write(tmp_path / "run")
    return tmp_path / "run"


def reuse(run: Path, *overrides: str) -> tuple[Path, list[str]]:
    trained = make_config(run)
    out = run.parent / "out"
    return out, reuse_stored(run, trained, out, trained.with_overrides(list(overrides)))


def make_config(run: Path) -> Config:
    from mappa_rl.config import load_config

    return load_config(run / "config.yaml")


def test_the_same_episodes_are_not_played_again(run: Path) -> None:
    out, said = reuse(run)
    assert load_results(out) == {key: rows for key, rows in load_results(run).items() if key[0] == "before"}
    assert (out / "traces" / "before.jsonl").read_bytes() == (run / "traces" / "before.jsonl").read_bytes()
    assert read_calibration(out).best == 0.4
    assert len(said) == 3


def test_another_first_temperature_keeps_results_but_plays_its_own_trace(run: Path) -> None:
    out, _ = reuse(run, "eval.temperatures=[0.4,1.0]")
    assert set(load_results(out)) == {("before", 1.0)}
    assert not (out / "traces").exists()


@pytest.mark.parametrize(
    "override", ["eval.episodes=4", "env.shaping=outcome", "rollout.max_new_tokens=8", "eval.top_p=0.9"]
)
def test_other_episodes_are_measured_again(run: Path, override: str) -> None:
    out, said = reuse(run, override)
    assert said == []
    assert load_results(out) == {}


def test_calibration_measures_only_what_is_missing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = reuse(run)
    config = make_config(run).with_overrides(["eval.calibration_temperatures=[0.4,0.8]"])
    measured: list[float] = []

    def evaluate(worker: Any, ids: Any, sampling: Any, **options: Any) -> Any:
        measured.append(sampling.temperature)
        turns = [SimpleNamespace(agent="coder_0", passed=passed) for passed in (False, True)]
        return SimpleNamespace(rate=0.9, rollouts=[SimpleNamespace(turns=turns)])

    monkeypatch.setattr("mappa_rl.evaluation.held_out.evaluate", evaluate)
    notes: list[str] = []
    progress: Any = SimpleNamespace(phase=lambda *a: None, update=lambda *a: None, note=notes.append)
    worker: Any = SimpleNamespace(task_ids=["a"])
    held_out = HeldOut(config, out, progress, worker, worker)
    held_out.calibrate(worker)
    assert measured == [0.8]
    assert notes == [
        "calibration, T=0.8: 1 of 2 actions are empty: the prompt left no room within rollout.max_context "
        "(coder_0 1)"
    ]
    assert held_out.best == 0.8
    assert read_calibration(out).rates == {0.4: 0.5, 0.8: 0.9, 1.0: 0.3}
