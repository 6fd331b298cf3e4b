"""``auto``: bf16 only where the machine computes in it fast."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mappa_rl import load_config
from mappa_rl.config.bf16 import fast_bf16
from mappa_rl.config.overrides import read_yaml, write_yaml

MACHINES = {
    "AVX2 alone": ({"avx2": True, "avx512_bf16": False, "amx_bf16": False}, False, False),
    "AVX-512 without bf16": ({"avx512_f": True, "avx512_bf16": False}, False, False),
    "AVX-512 with bf16": ({"avx512_f": True, "avx512_bf16": True}, False, True),
    "AMX": ({"amx_bf16": True}, False, True),
    "ARM with bf16": ({"neon": True, "bf16": True}, False, True),
    "ARM without": ({"neon": True, "bf16": False}, False, False),
    "a GPU": ({"avx2": True}, True, True),
}


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """A machine in torch's words; whether bf16 is fast there."""
    able, gpu, fast = MACHINES[request.param]
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    fast_bf16.cache_clear()
    yield fast
    fast_bf16.cache_clear()


@pytest.mark.parametrize("recipe", ["smollm2", "smollm2_lora"])
def test_the_recipes_of_a_real_model_take_bf16_only_where_it_is_fast(
    machine: bool, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())  # vLLM is installed
    config = load_config(recipe)
    assert config.optim.autocast is machine
    assert config.engine.dtype == ("bf16" if machine else "learner")


def test_a_run_s_config_names_what_was_chosen(machine: bool) -> None:
    config = load_config("demo", ["optim.autocast=auto", "engine.name=vllm", "engine.dtype=auto"])
    written = read_yaml(write_yaml(config.model_dump()), "config.yaml")
    assert written["optim"]["autocast"] is machine
    assert written["engine"]["dtype"] == ("bf16" if machine else "learner")


def test_who_says_true_gets_it_on_every_machine(machine: bool) -> None:
    config = load_config("demo", ["optim.autocast=true", "engine.name=vllm", "engine.dtype=bf16"])
    assert config.optim.autocast is True
    assert config.engine.dtype == "bf16"
