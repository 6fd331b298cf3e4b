"""Which process computes on which GPU: what cannot work is refused before a run.

No GPU takes part: torch's count of them is replaced.
"""

from __future__ import annotations

import re

import pytest
import torch

from mappa_rl.config import Config, load_config
from mappa_rl.config.environment import env_card
from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.gpus import placement_problems
from mappa_rl.training.preflight.model import known_shape, width_problems
from mappa_rl.training.preflight.problem import Problem
from mappa_rl.training.preflight.resources import on_gpus
from mappa_rl.training.preflight.team import policy_map, team_problems

VLLM = "engine.name=vllm"
ADAPTERS = ("policies.map=lora", "optim.zero_stage=2")
WIDE = "placement.engines={coder_0: {tensor_parallel: 2, devices: [2, 3]}, solver_0: {devices: [1]}}"


def _planned(*overrides: str, recipe: str = "demo") -> tuple[Config, PolicyMap]:
    config = load_config(recipe, overrides)
    policies = policy_map(config, env_card(config.env.id))
    assert policies is not None
    return config, policies


def problems(*overrides: str, recipe: str = "demo") -> list[Problem]:
    config, policies = _planned(*overrides, recipe=recipe)
    return placement_problems(config, policies, on_gpus(config, policies, known_shape(config)))


@pytest.fixture(autouse=True)
def _eight_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        [VLLM],
        [VLLM, "engine.sleep=true"],
        [VLLM, "engine.devices=[1]"],
        [VLLM, "run.processes=6", "engine.devices=[6, 7]", "engine.tensor_parallel=2"],
        [VLLM, "run.processes=8", "policies.map=lora"],
        ["run.processes=8"],
        ["run.processes=2", "placement.crews=apart"],
        [VLLM, "run.processes=2", "placement.crews=apart", "engine.devices=[6]"],
        [VLLM, WIDE, "engine.devices=[1]"],
        [VLLM, "policies.map={solver_0: solver_0, coder_0: coder_0, verifier_0: coder_0}", WIDE],
    ],
)
def test_placements_that_work(overrides: list[str]) -> None:
    assert problems(*overrides) == []


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["engine.devices=[0]"],
            r"engine\.devices=\[0\] and the learner both use GPU 0: .* List GPUs from 1 on",
        ),
        (
            ["engine.devices=[5, 7]", "engine.tensor_parallel=2", "run.processes=6"],
            r"both use GPU 5: run\.processes=6 takes the GPUs 0 to 5\. List GPUs from 6 on",
        ),
        (["engine.devices=[8]"], r"names GPU 8, but there are only 0 to 7"),
        (["run.processes=9", "policies.map=lora"], r"this machine has 8: use run\.processes=8 or fewer"),
        (["run.processes=2"], r"\(CUDA IPC\) only of a learner of one process\. List GPUs from 2 on"),
        (
            ["run.processes=3", "placement.crews=apart", "policies.map=lora"],
            r"run\.processes=3 in each of 3 crews needs a GPU for each process, but this machine has 8: "
            r"use .*placement\.crews=together",
        ),
        (
            ["run.processes=2", "placement.crews=apart", "engine.devices=[5]"],
            r"both use GPU 5: run\.processes=2 in each of 3 crews takes the GPUs 0 to 5\. List GPUs from 6",
        ),
        ([WIDE], r"engine\.devices is empty, .* list GPUs for all engines, or for none"),
        (
            ["engine.devices=[2]", "placement.engines={coder_0: {devices: [0]}}"],
            r"placement\.engines\.coder_0\.devices=\[0\] and the learner both use GPU 0",
        ),
        (
            ["engine.devices=[2]", "placement.engines={coder_0: {devices: [9]}}"],
            r"placement\.engines\.coder_0\.devices=\[9\] names GPU 9, but there are only 0 to 7",
        ),
        (["run.processes=2", "engine.sleep=true"], r"or use run\.processes=1 or policies\.map=lora"),
    ],
)
def test_placements_that_do_not_work_name_the_remedy(overrides: list[str], said: str) -> None:
    (problem,) = problems(VLLM, *overrides)
    assert problem.concern == "placement"
    assert re.search(said, problem.message)


@pytest.mark.parametrize(
    ("overrides", "taken"),
    [
        (["run.processes=3", "engine.tensor_parallel=4", "engine.devices=[2, 3, 4, 5]"], "both use GPU 2"),
        (["placement.crews=apart", "run.processes=2", "engine.devices=[4, 5]"], "both use GPU 4"),
        (["engine.tensor_parallel=1", "engine.devices=[]"], "vLLM takes whole weights from its own GPU"),
        (["engine.devices=[600, 700]"], None),
        (["engine.devices=[]", *ADAPTERS], "tensor_parallel=2 needs GPUs other than the learner's"),
        (
            ["engine.devices=[]", "engine.tensor_parallel=1", "engine.replicas=4", *ADAPTERS],
            "engine.replicas=4 needs a GPU for each replica",
        ),
        (["run.processes=64", "engine.devices=[64, 65]"], None),
    ],
)
def test_without_gpus_all_but_their_number_is_checked(
    overrides: list[str], taken: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = problems(*overrides, recipe="mathchat")
    assert [each.concern for each in found] == (["placement"] if taken else [])
    assert all(taken in each.message for each in found if taken)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["policies.map=lora", "optim.zero_stage=3"], r"all adapters.*Use optim\.zero_stage=2"),
        (["engine.devices=[1, 1]", "engine.tensor_parallel=2"], "lists a GPU twice"),
        (
            ["engine.devices=[1]", "placement.engines={coder_0: {replicas: 2}}"],
            r"placement\.engines\.coder_0\.devices=\[1\] must list exactly 2 GPUs: replicas=2 times",
        ),
        (
            ["policies.map=lora", "placement.engines={coder_0: {replicas: 2}}"],
            r"one engine serves all policies.*engine\.replicas",
        ),
        (["engine.name=hf", "placement.engines={coder_0: {replicas: 2}}"], r"Use engine\.name=vllm"),
        (
            ["cluster=ray", "placement.engines={coder_0: {devices: [1]}}"],
            r"placement\.engines\.coder_0\.devices=\[1\] names GPUs, but with cluster=ray Ray chooses",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("demo", [VLLM, *overrides])


def test_engines_of_a_policy_that_is_not_there_are_refused() -> None:
    config = load_config("demo", [VLLM, "placement.engines={codr_0: {replicas: 2}}"])
    (found,) = [each.message for each in team_problems(config, env_card(config.env.id))]
    assert "placement.engines: 'codr_0' is not a policy" in found
    assert "coder_0" in found


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["engine.tensor_parallel=3"],
            r"tensor_parallel=3 does not fit .*'tiny', which has 4 attention heads, 2 of .* use 1, 2, 4\.",
        ),
        (
            ["placement.engines={coder_0: {tensor_parallel: 8}}"],
            r"placement\.engines\.coder_0\.tensor_parallel=8 does not fit model\.kind='tiny'",
        ),
        (
            ["engine.tensor_parallel=4", "model.heads=12", "model.kv_heads=6", "model.mlp=252"],
            r"use 1, 2, 3, 6, 12\.",
        ),
        (["engine.tensor_parallel=4", "model.mlp=90"], r"layers 90 wide: use 1, 2\."),
    ],
)
def test_an_engine_over_more_gpus_than_a_models_layers_can_be_split_over_is_refused(
    overrides: list[str], said: str
) -> None:
    (problem,) = width_problems(*_planned(VLLM, *overrides))
    assert re.search(said, problem.message)


@pytest.mark.parametrize(
    "overrides", [["engine.tensor_parallel=4"], ["engine.tensor_parallel=8", "model.kind=Qwen/Qwen3-4B"]]
)
def test_key_heads_are_repeated_where_an_engine_has_more_gpus(overrides: list[str]) -> None:
    assert width_problems(*_planned(VLLM, *overrides)) == []
