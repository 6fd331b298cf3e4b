"""Runs of several processes: the same training as in one, and exact resumes."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

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


@pytest.mark.slow
def test_a_resumed_run_may_change_its_processes_and_its_learning_rate(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    alone = [*SMALL, "optim.zero_stage=0"]
    assert main(["train", "demo", *alone, "run.steps=3", f"out={whole}"]) == 0
    start = f"warmstart.path={whole / 'warmstart'}"
    assert main(["train", "demo", *alone, start, "run.steps=1", f"out={cut}"]) == 0
    for count, steps in ((2, 2), (1, 3)):
        assert main(["train", "--resume", str(cut), f"run.processes={count}", f"run.steps={steps}"]) == 0
        assert state_of(cut, steps)["processes"] == count
    for one, changed in zip(read_metrics(whole), read_metrics(cut), strict=True):
        assert one.keys() == changed.keys()
        for name, value in one.items():
            if not name.startswith(("time/", "tokens_per_s")):
                assert changed[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name

    assert main(["train", "--resume", str(cut), "optim.lr=1e-30", "run.steps=4"]) == 0
    before, after = (weights_of(cut, step) for step in (3, 4))
    assert all((before[name] == after[name]).all() for name in before)


@pytest.mark.parametrize(
    ("saved", "asked", "refused"),
    [
        ("optim.zero_stage=2", ["run.processes=2", "run.steps=9"], r"run\.processes=2, but .* saved by 1"),
        (
            "optim.zero_stage=0",
            ["run.steps=4"],
            r"run\.steps=4, but .* step 5: choose 5 or more",
        ),
    ],
)
def test_a_resumed_run_refuses_what_its_checkpoint_does_not_allow(
    saved: str, asked: list[str], refused: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = tmp_path / "run" / "checkpoints" / "step-000005"
    newest.mkdir(parents=True)
    (newest / "manifest.json").write_text("{}")
    (tmp_path / "run" / "config.yaml").write_text(load_config("demo", [*SMALL, saved, "run.steps=5"]).dump())
    assert main(["train", "--resume", str(tmp_path / "run"), *asked]) == 2
    assert re.search(refused, capsys.readouterr().err)


@pytest.mark.large
def test_two_processes_resume_exactly(tmp_path: Path) -> None:
    two = ["run.processes=2", "run.steps=2", f"out={tmp_path / '2'}"]
    assert main(["train", "demo", *SMALL, *two]) == 0
    start, cut = f"warmstart.path={tmp_path / '2' / 'warmstart'}", tmp_path / "cut"
    assert main(["train", "demo", *SMALL, start, "run.steps=1", f"out={cut}", "run.processes=2"]) == 0
    assert main(["train", "--resume", str(cut), "run.steps=2"]) == 0
    assert state_of(cut, 2)["processes"] == 2
    found, whole = (weights_of(run, 2) for run in (cut, tmp_path / "2"))
    assert found.keys() == whole.keys()
    assert all((found[name] == whole[name]).all() for name in found)


def test_processes_that_nobody_started_are_missed(tmp_path: Path) -> None:
    config = load_config("demo", [*SMALL, "run.steps=0", "run.processes=2"])
    with pytest.raises(RunError, match=r"run\.processes=2, but 1 were started"):
        train(config, tmp_path / "run")


def state_of(run: Path, step: int) -> dict[str, Any]:
    """What a checkpoint says of the solver's learner."""
    path = run / f"checkpoints/step-{step:06}/policies/solver_0/learner.json"
    state: dict[str, Any] = json.loads(path.read_text())
    return state


def weights_of(run: Path, step: int) -> dict[str, Any]:
    """Those of all policies in a checkpoint."""
    return {
        f"{policy} {name}": value
        for policy in ("solver_0", "coder_0", "verifier_0")
        for name, value in load_file(
            run / f"checkpoints/step-{step:06}/policies/{policy}/model/model.safetensors"
        ).items()
    }
