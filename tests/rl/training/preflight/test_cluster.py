"""What a run asks of a cluster is listed, and refused where its head is this machine and has less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from mappa_rl.config import Config, load_config
from mappa_rl.config.environment import env_card
from mappa_rl.training.preflight import find_problems, resources
from mappa_rl.training.preflight.cluster import cluster_remarks, wish_problems
from mappa_rl.training.preflight.team import policy_map
from mappa_rl.training.preflight.wishes import wishes

RAY = ["cluster=ray", "cluster.env_workers=1"]
JOINED = [*RAY, "cluster.address=10.0.0.1:6379"]
ENGINES = ["engine.devices=[]", "engine.tensor_parallel=8", "engine.replicas=2", "cluster.engine_node=big"]


@pytest.fixture(autouse=True)
def _four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def problems(config: Config, on_gpus: bool = False) -> list[str]:
    policies = policy_map(config, env_card(config.env.id))
    assert policies is not None
    return [str(each) for each in wish_problems(config, policies, on_gpus)]


@pytest.mark.parametrize(
    "overrides",
    [
        RAY,
        [*RAY, "run.processes=4"],
        ["cluster=ray", "cluster.env_cpus=0.25"],
        ["run.processes=99"],
        [*JOINED, "run.processes=99", "cluster.env_cpus=500", "cluster.env_node=cpus"],
    ],
)
def test_what_this_machine_has_is_accepted_and_another_cluster_is_not_asked(overrides: list[str]) -> None:
    assert problems(load_config("demo", overrides)) == []


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["run.processes=3", "cluster.env_cpus=500"], "asks for 502 CPU at once (2 x (1 CPU) for further"),
        (["run.processes=3", "placement.crews=apart"], "3 x (1 CPU) for crew 2; 1 x (1 CPU) for env"),
        (["cluster.env_node=cpus"], "which has 0 cpus and stays the only node"),
        (["run.processes=3", "cluster.learner_node=small"], "asks for 2 small at once"),
    ],
)
def test_what_a_head_of_the_runs_own_will_never_have_is_refused(overrides: list[str], said: str) -> None:
    (found,) = problems(load_config("demo", [*RAY, *overrides]))
    assert found.startswith("cluster: the run asks for ")
    assert said in found
    assert "name a cluster in cluster.address" in found


def test_gpus_count_too() -> None:
    config = load_config(
        "mathchat", [*RAY, "engine.devices=[]", "engine.tensor_parallel=1", "run.processes=1"]
    )
    (found,) = problems(config, on_gpus=True)
    assert "asks for 3 GPU at once" in found
    assert "which has 1 GPU besides the leading process's and stays the only node" in found
    assert "ask for less with run.processes, engine.replicas or engine.tensor_parallel" in found


def test_the_leading_process_has_a_gpu_of_its_own() -> None:
    shared = [*RAY, "engine.name=vllm", "policies.map=shared"]
    config = load_config("demo", [*shared, "engine.replicas=2"])
    (found,) = problems(config, on_gpus=True)
    assert "asks for 2 GPU at once" in found
    assert problems(load_config("demo", shared), on_gpus=True) == []
    policies = policy_map(config, env_card(config.env.id))
    assert policies is not None
    assert cluster_remarks(config, policies, True) == []


def test_a_cluster_by_ray_address_is_not_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert problems(load_config("demo", [*RAY, "run.processes=99"])) == []


def test_all_that_a_cluster_must_have_is_listed() -> None:
    config = load_config(
        "mathchat", [*JOINED, *ENGINES, "placement.crews={verifier_0: 1}", "run.processes=4"]
    )
    policies = policy_map(config, env_card(config.env.id))
    assert policies is not None
    listed = [str(each) for each in wishes(config, policies, True)]
    assert listed == [
        "3 x (1 CPU, 1 GPU) for further learner processes",
        "4 x (1 CPU, 1 GPU) for crew 1",
        *(f"2 x (1 CPU, 8 GPU, 1 big) for engines of {name}" for name in policies.names),
        "1 x (1 CPU) for environments",
    ]
    asked, leads = cluster_remarks(config, policies, True)
    assert all(each in asked for each in listed)
    assert "uses GPU 0 of this machine, of which Ray does not know" in leads


@pytest.mark.parametrize(("where", "refused"), [(RAY, True), (JOINED, False)])
def test_the_memory_of_other_nodes_is_not_asked_of_this_machine(
    where: list[str], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "free_memory", lambda: 10 * 10**9)
    config = load_config(
        "demo", [*where, "run.processes=20", "placement.crews=apart", "env.sandbox=calculator"]
    )
    found = [str(each) for each in find_problems(config, Path("runs"), probe=False)]
    assert any(each.startswith("memory: ") for each in found) == refused
    monkeypatch.setattr(resources, "free_memory", lambda: 10**9)
    found = [str(each) for each in find_problems(config, Path("runs"), probe=False)]
    assert any("for the process that leads, but only 1.0 GB" in each for each in found) != refused
