"""Two processes of a learner, of which Ray places the second: the same learning, also when one dies."""

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

from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.telemetry.sinks import read_metrics
from ray_cluster import nodes
from tiny_run import TINY

RUN = (*TINY, "warmstart.steps=20", "run.processes=2", "run.checkpoint_every=1")
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


def follower() -> psutil.Process:
    """The process of the second learner, a descendant of the node that this process has started.

    To ask Ray takes seconds, in which a small run ends.
    """
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if process.cmdline()[:1] == ["ray::Follower.follow"]:
                return process
    raise AssertionError("no actor follows")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same length by torchrun, on this machine."""
    out = tmp_path_factory.mktemp("local") / "run"
    finished(begun(out, "run.steps=6"))
    return out


@pytest.mark.slow
def test_the_second_process_may_be_on_any_node_and_may_die(
    two_nodes: Any, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = begun(out, *on(two_nodes), "run.steps=6", f"warmstart.path={undisturbed / 'warmstart'}")
    until_step(out, 2)
    follower().kill()
    said = finished(process)
    assert "all processes start again from step" in said
    assert learned(out) == learned(undisturbed)
    assert len(learned(out)) == 6


@pytest.mark.slow
def test_sigterm_leaves_a_checkpoint_and_no_child(two_nodes: Any, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    more = ("run.steps=500", "run.checkpoint_every=0", f"warmstart.path={undisturbed / 'warmstart'}")
    process = begun(out, *on(two_nodes), *more)
    assert process.stdout is not None
    next(line for line in process.stdout if line.strip().startswith("1/500"))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30.0) == 143
    assert newest_step(out) > 0
    _, left = psutil.wait_procs(children, 5.0)
    assert not left


@pytest.mark.slow
def test_a_process_that_no_node_has_room_for_is_named(
    two_nodes: Any, undisturbed: Path, tmp_path: Path
) -> None:
    more = ("cluster.learner_cpus=99", "cluster.placement_s=2", f"warmstart.path={undisturbed / 'warmstart'}")
    process = begun(tmp_path / "run", *on(two_nodes), *more)
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert "learner-1 was not placed within cluster.placement_s=2: it wants 99 CPU, free are" in said
