"""Two processes of a learner, of which Ray places the second: the same learning, also when one dies."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.telemetry.sinks import read_metrics
from ray_cluster import nodes
from runs_on_ray import LIMIT_S, actors_named, finished, learned, on
from runs_on_ray import begun as run_begun
from saved_step import until_step

RUN = ("warmstart.steps=20", "run.processes=2")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with nodes(2) as found:
        yield found


def begun(out: Path, *overrides: str) -> subprocess.Popen[str]:
    return run_begun(out, [*RUN, *overrides])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same length by torchrun, on this machine."""
    out = tmp_path_factory.mktemp("local") / "run"
    finished(begun(out, "run.steps=4"))
    return out


@pytest.mark.slow
def test_the_second_process_may_be_on_any_node_and_may_die(two_nodes: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    _killed(out, *on(two_nodes))
    assert [row["step"] for row in read_metrics(out)] == [1, 2, 3, 4]


def _killed(out: Path, *overrides: str) -> None:
    """A run of four steps whose second process is killed after two."""
    process = begun(out, *overrides, "run.steps=4")
    until_step(out, 2)
    actors_named("Follower.follow")[0].kill()
    assert "all processes start again from step" in finished(process)


@pytest.mark.large
def test_what_it_learns_is_what_two_processes_of_this_machine_learn(
    two_nodes: Any, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    _killed(out, *on(two_nodes), f"warmstart.path={undisturbed / 'warmstart'}")
    assert learned(out) == learned(undisturbed)
    assert len(learned(out)) == 4


@pytest.mark.large
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
def test_a_process_that_no_node_has_room_for_is_named_before_the_warm_start(
    two_nodes: Any, tmp_path: Path
) -> None:
    more = ("cluster.learner_cpus=99", "cluster.placement_s=2")
    process = begun(tmp_path / "run", *on(two_nodes), *more)
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    wanted = "it wants 1 x (0.5 CPU) for environments; 1 x (99 CPU) for further learner processes; free are"
    assert f"the cluster had no room for the run within cluster.placement_s=2: {wanted}" in " ".join(
        said.split()
    )
    assert not (tmp_path / "run" / "warmstart").exists()
