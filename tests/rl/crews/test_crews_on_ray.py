"""Crews in actors of a cluster: what crews of this machine learn, also when one dies."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.numpy import load_file

from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.config import load_config
from mappa_rl.crews.ray import RayCrew
from mappa_rl.errors import ActorLost, CrewLost
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.crew_actor import CrewActor
from ray_cluster import nodes
from runs_on_ray import actors_named, finished, learned, on
from runs_on_ray import begun as run_begun
from saved_step import until_step

RUN = ("warmstart.steps=3", "rollout.episodes_per_step=6")
APART = "placement.crews=apart"


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with nodes(2) as found:
        yield found


def begun(out: Path, *overrides: str) -> subprocess.Popen[str]:
    return run_begun(out, [*RUN, *overrides])


def actors() -> list[psutil.Process]:
    return actors_named("CrewActor")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one crew, on this machine."""
    out = tmp_path_factory.mktemp("local") / "run"
    finished(begun(out, "run.steps=4"))
    return out


@pytest.mark.large
def test_a_crew_may_die(two_nodes: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    _killed(out, *on(two_nodes))
    assert [row["step"] for row in read_metrics(out)] == [1, 2, 3, 4]
    assert not actors()


def _killed(out: Path, *overrides: str) -> None:
    """A run of four steps, one of whose crews is killed after two."""
    process = begun(out, *overrides, APART, "run.steps=4")
    until_step(out, 2)
    crews = actors()
    assert len(crews) == 2
    crews[0].kill()
    assert "has lost a crew: all processes start again from step" in finished(process)


@pytest.mark.large
def test_crews_in_actors_learn_what_one_learns(two_nodes: Any, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    _killed(out, *on(two_nodes), f"warmstart.path={undisturbed / 'warmstart'}")
    assert learned(out) == learned(undisturbed)
    assert len(learned(out)) == 4
    weights = "checkpoints/step-000004/policies/{}/model/model.safetensors"
    for policy in ("solver_0", "coder_0", "verifier_0"):
        one, other = (load_file(run / weights.format(policy)) for run in (undisturbed, out))
        assert all((one[name] == other[name]).all() for name in one)
    assert not actors()


def test_a_crew_that_dies_while_it_starts_is_lost_as_a_later_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the run starts again from its last checkpoint. A cluster would have to be hit at the moment."""
    closed = []

    class Room:
        def __init__(self, *_: Any) -> None:
            pass

        def start(self, *_: Any, **__: Any) -> list[Any]:
            raise ActorLost("crew-1 is lost: The actor died unexpectedly.")

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr("mappa_rl.crews.ray.connect", lambda cluster: None)
    monkeypatch.setattr("mappa_rl.crews.ray.Group", Room)
    with pytest.raises(CrewLost, match="crew-1 is lost"):
        RayCrew(1, ["p"], load_config("demo"), Path(), CrewActor)
    assert closed


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
