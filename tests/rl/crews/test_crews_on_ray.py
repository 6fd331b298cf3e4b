"""Crews in actors of a cluster: what crews of this machine learn, also when one dies."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.numpy import load_file

from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.telemetry.sinks import read_metrics
from ray_cluster import nodes
from tiny_run import TINY

RUN = (*TINY, "warmstart.steps=3", "rollout.episodes_per_step=6", "eval.episodes=2", "run.checkpoint_every=1")
APART = "placement.crews=apart"
CLI = (sys.executable, "-m", "mappa_rl.cli", "train")
LIMIT_S = 150.0


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with nodes(2) as found:
        yield found


def begun(out: Path, *overrides: str) -> subprocess.Popen[str]:
    words = [*CLI, "demo", *RUN, *overrides, f"out={out}"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def on(cluster: Any) -> tuple[str, ...]:
    return ("cluster=ray", f"cluster.address={cluster.address}", "cluster.env_cpus=0.5")


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    return said


def learned(out: Path) -> list[dict[str, float]]:
    rows = read_metrics(out)
    return [{k: v for k, v in row.items() if not k.startswith(("time", "tokens_per_s"))} for row in rows]


def until_step(out: Path, step: int) -> None:
    until = time.monotonic() + LIMIT_S
    while newest_step(out) < step:
        assert time.monotonic() < until
        time.sleep(0.05)


def actors() -> list[psutil.Process]:
    """The processes of crews, descendants of the nodes that this process has started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if process.cmdline()[:1][0].startswith("ray::CrewActor"):
                found.append(process)
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one crew, on this machine."""
    out = tmp_path_factory.mktemp("local") / "run"
    finished(begun(out, "run.steps=6"))
    return out


@pytest.mark.slow
def test_crews_in_actors_learn_what_one_learns_and_one_may_die(
    two_nodes: Any, undisturbed: Path, tmp_path: Path
) -> None:
    out, start = tmp_path / "run", f"warmstart.path={undisturbed / 'warmstart'}"
    process = begun(out, *on(two_nodes), APART, "run.steps=6", start)
    until_step(out, 2)
    crews = actors()
    assert len(crews) == 2
    crews[0].kill()
    said = finished(process)
    assert "has lost a crew: all processes start again from step" in said
    assert learned(out) == learned(undisturbed)
    assert len(learned(out)) == 6
    weights = "checkpoints/step-000006/policies/{}/model/model.safetensors"
    for policy in ("solver_0", "coder_0", "verifier_0"):
        one, other = (load_file(run / weights.format(policy)) for run in (undisturbed, out))
        assert all((one[name] == other[name]).all() for name in one)
    assert not actors()


@pytest.mark.large
def test_sigterm_leaves_a_checkpoint_and_no_actor(two_nodes: Any, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    more = ("run.steps=500", "run.checkpoint_every=0", f"warmstart.path={undisturbed / 'warmstart'}")
    process = begun(out, *on(two_nodes), APART, *more)
    assert process.stdout is not None
    next(line for line in process.stdout if line.strip().startswith("1/500"))
    crews = actors()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30.0) == 143
    assert newest_step(out) > 0
    _, left = psutil.wait_procs(crews, 10.0)
    assert not left


@pytest.mark.large
def test_crews_of_two_actors_each(two_nodes: Any, undisturbed: Path, tmp_path: Path) -> None:
    start = f"warmstart.path={undisturbed / 'warmstart'}"
    more = ("run.processes=2", "optim.minibatches=2", "optim.zero_stage=2", "run.steps=3", start)
    here, there = tmp_path / "here", tmp_path / "there"
    finished(begun(here, *more))
    process = begun(there, *on(two_nodes), "placement.crews={verifier_0: 1}", *more)
    until_step(there, 1)
    crews = actors()
    assert len(crews) == 2
    crews[-1].kill()
    assert "start again from step" in finished(process)
    assert learned(there) == learned(here)
