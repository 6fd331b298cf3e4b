"""A GPU must hold all that is on it: refused where it is here, said where one is assumed, with remedies."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card
from mappa_rl.training.preflight.gpus import gpu_remarks, memory_problems
from mappa_rl.training.preflight.model import known_shape
from mappa_rl.training.preflight.resources import footprint
from mappa_rl.training.preflight.team import policy_map

OVERLAP = ["run.processes=3", "engine.tensor_parallel=4", "engine.devices=[2, 3, 4, 5]"]
ONE = ["run.processes=1", "engine.tensor_parallel=1", "engine.devices=[]"]


def found(*overrides: str) -> tuple[list[str], list[str]]:
    """Problems, and remarks."""
    config = load_config("mathchat", overrides)
    policies, shape = policy_map(config, env_card(config.env.id)), known_shape(config)
    assert policies is not None
    assert shape is not None
    need = footprint(config, shape, policies)
    return [str(each) for each in memory_problems(config, policies, need)], gpu_remarks(
        config, policies, need
    )


def gpus(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: memory > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (memory, memory))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=memory))


def test_without_gpus_the_least_number_and_the_sum_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 0)
    assert found() == ([], ["the run needs a machine with at least 8 GPUs."])
    refused, (count, large) = found(*OVERLAP)
    assert refused == []
    assert count == "the run needs a machine with at least 6 GPUs."
    assert large.startswith(
        "GPU 2 needs about 111.2 GB for all that is on it, but a GPU is assumed to have 80.0"
    )


def test_remedies_are_those_that_the_run_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 0)
    (_, large) = found(*ONE)[1]
    for remedy in (
        "lower optim.tokens_per_micro_batch or engine.memory_fraction",
        "engine.sleep=true",
        "policies.map=lora optim.zero_stage=2 (adapters on one base)",
        "policies.map=shared (one policy for all agents)",
    ):
        assert remedy in large
    assert "optim.offload" not in large
    assert "optim.offload=true" in found(*ONE, "optim.offload=false")[1][1]
    adapters = found(*ONE, "policies.map=lora", "optim.zero_stage=1", "optim.offload=true")[1][-1]
    assert "policies.map" not in adapters
    assert "for all that is on it" in adapters


def test_on_gpus_the_sum_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 80 * 10**9)
    assert found() == ([], [])
    (large,), remarks = found(*OVERLAP)
    assert remarks == []
    assert large.startswith(
        "memory: GPU 2 needs about 111.2 GB for all that is on it, but only 80.0 GB is free"
    )
    gpus(monkeypatch, 24 * 10**9)
    small = " ".join(found()[0])
    assert "GPU 1, GPU 2, GPU 3, GPU 4, GPU 5 each need about " in small
    on_ray = found("cluster=ray", "cluster.address=auto", "engine.devices=[]")[0]
    assert on_ray[0].startswith("memory: each GPU that trains needs about ")
