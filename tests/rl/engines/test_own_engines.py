"""Policies with engines of their own: how many start, how wide, on which GPUs, and how they divide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine_helpers import vllm_config
from mappa_rl.engines import make
from mappa_rl.engines.replicas import ReplicatedEngine
from mappa_rl.engines.vllm import options
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.errors import EngineError

POLICIES = ("solver", "coder", "verifier")
Begun = dict[tuple[str, int], VLLMOptions]


class Server:
    """Stands for an engine on a server."""

    version, max_len = 0, 64

    def close(self) -> None: ...


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Begun:
    """Policy and replica -> what its server was started with; nothing starts."""
    found: Begun = {}

    def start(own: VLLMOptions, names: Sequence[str]) -> Mapping[str, Any]:
        found.update({(name, own.replica): own for name in names})
        return {name: Server() for name in names}

    monkeypatch.setattr(make, "_start", start)
    monkeypatch.setattr(make, "import_vllm", lambda: None)
    for module in (make, options):
        monkeypatch.setattr(module, "on_cpu", lambda: False)
    return found


def engines(*overrides: str) -> dict[str, Any]:
    models = dict.fromkeys(POLICIES)
    return dict(
        make.make_engines(vllm_config(*overrides), models, dict.fromkeys(models, Path("m")), lora=False)
    )


def test_each_policy_gets_the_engines_that_it_asks_for(started: Begun) -> None:
    own = "coder: {replicas: 3, devices: [2, 3, 4]}, solver: {tensor_parallel: 2, devices: [5, 6]}"
    made = engines("engine.devices=[1]", f"placement.engines={{{own}}}")
    assert sorted(started) == [("coder", 0), ("coder", 1), ("coder", 2), ("solver", 0), ("verifier", 0)]
    assert [len(made["coder"].replicas), type(made["solver"])] == [3, Server]
    assert isinstance(made["coder"], ReplicatedEngine)
    assert {key: each.devices for key, each in started.items()} == {
        ("coder", 0): [2],
        ("coder", 1): [3],
        ("coder", 2): [4],
        ("solver", 0): [5, 6],
        ("verifier", 0): [1],
    }
    assert started["solver", 0].engine.tensor_parallel == 2
    assert started["solver", 0].backend == "nccl"
    assert {each.sharing for each in started.values()} == {1}


def test_only_engines_on_the_same_gpu_divide_its_memory(started: Begun) -> None:
    engines("engine.devices=[1]", "placement.engines={coder: {replicas: 2, devices: [1, 2]}}")
    assert {key: each.sharing for key, each in started.items()} == {
        ("solver", 0): 3,
        ("verifier", 0): 3,
        ("coder", 0): 3,
        ("coder", 1): 1,
    }


def test_engines_on_the_learner_s_gpu_divide_it_among_all(started: Begun) -> None:
    engines()
    assert [each.sharing for each in started.values()] == [3, 3, 3]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("{coder: {replicas: 2}}", r"placement\.engines\.coder\.replicas=2 needs a GPU for each replica"),
        ("{coder: {tensor_parallel: 2}}", r"them in placement\.engines\.coder\.devices"),
    ],
)
def test_engines_without_gpus_for_them_are_refused(started: Begun, own: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        engines(f"placement.engines={own}")
    assert not started
