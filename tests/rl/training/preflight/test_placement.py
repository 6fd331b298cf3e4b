"""Which process computes on which GPU: what cannot work is refused before a run.

No GPU takes part: torch's count of them is replaced.
"""

from __future__ import annotations

import re

import pytest
import torch

from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card
from mappa_rl.errors import ConfigError
from mappa_rl.training.preflight.model import placement_problems
from mappa_rl.training.preflight.problem import Problem
from mappa_rl.training.preflight.team import policy_map

VLLM = "engine.name=vllm"


def problems(*overrides: str) -> list[Problem]:
    config = load_config("demo", overrides)
    policies = policy_map(config, env_card(config.env.id))
    assert policies is not None
    return placement_problems(config, policies)


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
        (["run.processes=2", "engine.sleep=true"], r"or use run\.processes=1 or policies\.map=lora"),
    ],
)
def test_placements_that_do_not_work_name_the_remedy(overrides: list[str], said: str) -> None:
    (problem,) = problems(VLLM, *overrides)
    assert problem.concern == "engine"
    assert re.search(said, problem.message)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["policies.map=lora", "optim.zero_stage=3"], r"all adapters.*Use optim\.zero_stage=2"),
        (["engine.devices=[1, 1]", "engine.tensor_parallel=2"], "lists a GPU twice"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("demo", [VLLM, *overrides])
