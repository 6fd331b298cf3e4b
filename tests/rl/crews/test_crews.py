"""Crews that learn at the same time: the same run as with one, and what happens when one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.numpy import load_file

from mappa_rl.cli import main
from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.crews.local import MEMBER
from mappa_rl.errors import LearnerError
from mappa_rl.telemetry.sinks import read_metrics
from saved_step import until_step
from tiny_run import TINY

RUN = (*TINY, "warmstart.steps=3", "rollout.episodes_per_step=6", "run.steps=2", "eval.episodes=2")
POLICIES = ("solver_0", "coder_0", "verifier_0")
APART = "placement.crews=apart"
WEIGHTS = "checkpoints/step-000002/policies/{}/{}"
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("start")
    assert main(["train", "demo", *RUN, "run.steps=0", f"out={out / 'run'}"]) == 0
    return f"warmstart.path={out / 'run' / 'warmstart'}"


def trained(out: Path, *overrides: str) -> list[dict[str, Any]]:
    """The metrics of a run, without what the clock gives."""
    assert main(["train", "demo", *RUN, *overrides, f"out={out}"]) == 0
    timed = ("time/", "tokens_per_s")
    return [
        {name: value for name, value in row.items() if not name.startswith(timed)}
        for row in read_metrics(out)
    ]


def same_weights(one: Path, other: Path, file: str = "model/model.safetensors") -> bool:
    pairs = [[load_file(run / WEIGHTS.format(name, file)) for run in (one, other)] for name in POLICIES]
    return all(a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((), marks=pytest.mark.large),
        pytest.param(
            ("algo.name=ppo", "algo.kl=reward", "algo.kl_coef=0.01", "rollout.schedule=async"),
            marks=pytest.mark.large,
        ),
        (
            "policies.map=lora",
            "algo.kl=loss_k3",
            "algo.kl_coef=0.01",
            "algo.importance_sampling=tis",
            "optim.zero_stage=2",
            "optim.minibatches=2",
        ),
    ],
)
def test_crews_learn_bit_for_bit_what_one_learns(tmp_path: Path, start: str, settings: Sequence[str]) -> None:
    one = trained(tmp_path / "one", start, *settings)
    several = trained(tmp_path / "several", start, *settings, APART)
    if "rollout.schedule=async" not in settings:  # there episodes end in any order
        assert several == one
        assert same_weights(tmp_path / "one", tmp_path / "several")
    assert all(f"grad_norm/{name}" in row for row in several for name in POLICIES)


@pytest.mark.large
def test_the_process_that_plays_may_train_nothing_and_a_run_changes_its_crews(
    tmp_path: Path, start: str
) -> None:
    whole = trained(tmp_path / "whole", start)
    cut = tmp_path / "cut"
    crews = "placement.crews={solver_0: 1, coder_0: 1, verifier_0: 2}"
    assert main(["train", "demo", *RUN, start, "run.steps=1", crews, f"out={cut}"]) == 0
    assert main(["train", "--resume", str(cut), "run.steps=2", APART]) == 0
    assert same_weights(tmp_path / "whole", cut)
    assert [row["success"] for row in read_metrics(cut)] == [row["success"] for row in whole]


@pytest.mark.large
def test_crews_of_two_processes(tmp_path: Path, start: str) -> None:
    settings = ["run.processes=2", "optim.minibatches=2", "optim.zero_stage=2"]
    one = trained(tmp_path / "one", start, *settings)
    several = trained(tmp_path / "several", start, *settings, "placement.crews={verifier_0: 1}")
    assert several == one
    assert same_weights(tmp_path / "one", tmp_path / "several")


def members(process: psutil.Process) -> list[psutil.Process]:
    found = []
    for child in process.children(recursive=True):
        try:
            words = child.cmdline()
        except psutil.NoSuchProcess:
            continue
        if MEMBER[-1] in words:
            found.append(child)
    return found


def begun(out: Path, *overrides: str) -> subprocess.Popen[str]:
    """A long run with three crews that has made its first step."""
    long = ["run.steps=500", "run.checkpoint_every=0", *overrides]
    process = subprocess.Popen(
        [sys.executable, "-m", "mappa_rl.cli", "train", "demo", *RUN, APART, f"out={out}", *long],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().startswith("1/") and "reward" in line:
            return process
    raise AssertionError("the run ended before")


def gone(processes: Sequence[psutil.Process]) -> bool:
    _, left = psutil.wait_procs(list(processes), LIMIT_S)
    return not [each for each in left if each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.large
def test_sigterm_leaves_a_checkpoint_and_no_process(tmp_path: Path, start: str) -> None:
    process = begun(tmp_path / "run", start)
    crews = members(psutil.Process(process.pid))
    assert len(crews) == 2
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    assert newest_step(tmp_path / "run") > 0
    assert gone(crews)


@pytest.mark.slow
def test_a_crew_that_dies_ends_the_run_which_other_crews_resume(tmp_path: Path, start: str) -> None:
    process = begun(tmp_path / "run", start, "run.checkpoint_every=1")
    until_step(tmp_path / "run", 1)
    first, second = members(psutil.Process(process.pid))
    first.kill()
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode != 0
    assert "crew 1, which trains coder_0, has ended" in said
    assert gone([second])
    saved = newest_step(tmp_path / "run")
    crews = "placement.crews={solver_0: 1, coder_0: 1, verifier_0: 2}"
    assert main(["train", "--resume", str(tmp_path / "run"), f"run.steps={saved + 1}", crews]) == 0
    assert newest_step(tmp_path / "run") == saved + 1


@pytest.mark.large
def test_a_crew_outlives_no_process_that_plays(tmp_path: Path, start: str) -> None:
    process = begun(tmp_path / "run", start)
    crews = members(psutil.Process(process.pid))
    process.kill()
    process.wait()
    assert gone(crews)


@pytest.mark.slow
def test_what_a_crew_raises_is_raised_where_it_was_called(tmp_path: Path, start: str) -> None:
    broken = ["optim.lr=1e30", "optim.max_skipped_updates=0", "optim.grad_clip=1e30", "run.steps=6"]
    began = time.monotonic()
    with pytest.raises(LearnerError, match=r"The gradient was not finite in 1 updates"):
        _train(tmp_path / "run", start, *broken, "placement.crews={solver_0: 1, coder_0: 1, verifier_0: 1}")
    assert time.monotonic() - began < LIMIT_S
    assert not members(psutil.Process(os.getpid()))


def _train(out: Path, *overrides: str) -> None:
    from mappa_rl.config import load_config
    from mappa_rl.training.trainer import train

    train(load_config("demo", [*RUN, *overrides]), out)
