"""Runs of several processes: the same training as in one, and exact resumes."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from mappa_rl.cli import main
from mappa_rl.config import load_config
from mappa_rl.errors import RunError
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from tiny_run import TINY

SMALL = [
    *TINY,
    "optim.minibatches=4",
    "optim.zero_stage=2",
]


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(1, 2), pytest.param((1, 2, 4), marks=pytest.mark.large)])
def test_several_processes_train_what_one_does(counts: tuple[int, ...], tmp_path: Path) -> None:
    """Sampling is the first process's, so the same episodes are played as long as the weights agree."""
    assert main(["train", "demo", *SMALL, "run.steps=0", f"out={tmp_path / 'start'}"]) == 0
    start = f"warmstart.path={tmp_path / 'start' / 'warmstart'}"
    for count in counts:
        out = [f"out={tmp_path / str(count)}", f"run.processes={count}"]
        assert main(["train", "demo", *SMALL, start, "run.steps=2", *out]) == 0
    one, *several = (read_metrics(tmp_path / str(count)) for count in counts)
    for alone, shared in chain(*(zip(one, each, strict=True) for each in several)):
        assert alone.keys() == shared.keys()
        for name, value in alone.items():
            if not name.startswith(("time/", "tokens_per_s")):
                assert shared[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name

    assert main(["eval", str(tmp_path / "2"), "eval.episodes=3"]) == 0  # in one process


@pytest.mark.large
def test_two_processes_resume_exactly(tmp_path: Path) -> None:
    two = ["run.processes=2", "run.steps=2", f"out={tmp_path / '2'}"]
    assert main(["train", "demo", *SMALL, *two]) == 0
    start, cut = f"warmstart.path={tmp_path / '2' / 'warmstart'}", tmp_path / "cut"
    assert main(["train", "demo", *SMALL, start, "run.steps=1", f"out={cut}", "run.processes=2"]) == 0
    assert main(["train", "--resume", str(cut), "run.steps=2"]) == 0
    state = json.loads((cut / "checkpoints/step-000002/policies/solver_0/learner.json").read_text())
    assert state["processes"] == 2
    weights = "checkpoints/step-000002/policies/{}/model/model.safetensors"
    for policy in ("solver_0", "coder_0", "verifier_0"):
        found, whole = (load_file(run / weights.format(policy)) for run in (cut, tmp_path / "2"))
        assert found.keys() == whole.keys()
        assert all((found[name] == whole[name]).all() for name in found)


def test_processes_that_nobody_started_are_missed(tmp_path: Path) -> None:
    config = load_config("demo", [*SMALL, "run.steps=0", "run.processes=2"])
    with pytest.raises(RunError, match=r"run\.processes=2, but 1 were started"):
        train(config, tmp_path / "run")
