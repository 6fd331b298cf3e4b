"""What a run wants of its cluster before it begins."""

from __future__ import annotations

from typing import Any

import pytest

from mappa_rl.config import load_config
from mappa_rl.errors import ClusterError
from mappa_rl.training import room


def test_the_wishes_of_a_run() -> None:
    alone = room.wishes(load_config("demo", ["cluster=ray", "cluster.env_node=environments"]))
    assert [str(wish) for wish in alone] == ["1 x (1 CPU, 1 environments) for environments"]
    many = ["cluster=ray", "run.processes=2", "optim.zero_stage=1", "placement.crews=apart"]
    found = {wish.name: wish.count for wish in room.wishes(load_config("demo", many))}
    assert found == {"environments": 1, "learner": 1, "crew-1": 2, "crew-2": 2}


def test_engines_are_wished_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "on_cpu", lambda: False)
    words = ["cluster=ray", "engine.devices=[]", "cluster.engine_node=gpus"]
    more = "placement.engines={solver_0: {replicas: 2, tensor_parallel: 4}}"
    found = {wish.name: wish for wish in room.wishes(load_config("mathchat", [*words, more]))}
    assert str(found["engine-solver_0"]) == "2 x (1 CPU, 4 GPU, 1 gpus) for engines of solver_0"
    assert str(found["engine-verifier_0"]) == "1 x (1 CPU, 2 GPU, 1 gpus) for engines of verifier_0"
    shared = room.wishes(load_config("mathchat_lora", [*words, "engine.sleep=false"]))
    assert [wish.name for wish in shared] == ["environments", "engine-adapters"]


class Ray:
    """A cluster that has so many CPUs."""

    def __init__(self, cpus: float) -> None:
        self.cpus = cpus

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cpus}


@pytest.mark.parametrize("cpus", [2.0, 4.0])
def test_a_head_of_its_own_refuses_at_once(cpus: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray: Any = Ray(cpus)
    monkeypatch.setattr(room, "connect", lambda cluster: ray)
    monkeypatch.setattr(room, "free", lambda: f"{cpus:g} CPU")
    config = load_config("demo", ["cluster=ray", "run.processes=4", "optim.zero_stage=1"])
    if cpus == 4.0:
        room.check_room(config)
        return
    wanted = r"it wants 1 x \(1 CPU\) for environments; 3 x \(1 CPU\) for further learner .*; there are 2"
    with pytest.raises(ClusterError, match=wanted):
        room.check_room(config)


@pytest.mark.parametrize(
    ("overrides", "cpus", "count"),
    [
        ([], 64.0, 4),
        ([], 3.0, 3),
        (["run.processes=3", "optim.zero_stage=1"], 3.0, 1),
        (["run.processes=3", "optim.zero_stage=1"], 1.0, 1),
        (["cluster.env_cpus=0.5"], 1.0, 2),
        (["cluster.env_workers=4"], 1.0, 4),
        (["cluster.address=10.0.0.1:6379"], 1.0, 4),
    ],
)
def test_a_head_of_its_own_plays_episodes_in_as_many_processes_as_it_has_room_for(
    overrides: list[str], cpus: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray: Any = Ray(cpus)
    monkeypatch.setattr(room, "connect", lambda cluster: ray)
    config = load_config("demo", ["cluster=ray", "cluster.envs_per_worker=8", *overrides])
    assert room.most_workers(config, 32) == count
