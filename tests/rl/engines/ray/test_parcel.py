"""What the learner packs is what an engine on another node loads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine_helpers import vllm_config
from mappa_rl.engines.ray import parcel
from mappa_rl.engines.ray.parcel import Shared, WeightsParcel
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.errors import EngineError


class Taking:
    """A FAKE engine that keeps what it is given."""

    weights: Mapping[str, Tensor]

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.weights, self.version = {name: tensor.clone() for name, tensor in weights.items()}, version


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A FAKE object store: references are places in it."""
    kept: list[Any] = []

    def put(value: Any) -> int:
        for _, _, array in value.values():
            array.flags.writeable = False  # as Ray's are
        kept.append(value)
        return len(kept) - 1

    monkeypatch.setattr(parcel, "import_ray", lambda: SimpleNamespace(put=put))
    return kept


@pytest.mark.filterwarnings("error:The given NumPy array is not writable")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_arrive_in_the_engines_precision(dtype: torch.dtype, store: list[Any]) -> None:
    torch.manual_seed(0)
    whole = torch.randn(7, 5)
    source = {"a": whole, "turned": whole.t()[:, 1:], "scalar": torch.tensor(2.5)}
    engine: Any = Taking()
    sent = WeightsParcel.of(source, dtype)
    sent.deliver(store[sent.content], engine, 3)
    assert engine.version == 3
    assert engine.weights.keys() == source.keys()
    for name, tensor in source.items():
        assert engine.weights[name].dtype == dtype
        assert torch.equal(engine.weights[name], tensor.to(dtype))


def test_damaged_weights_are_not_loaded(store: list[Any]) -> None:
    packed = WeightsParcel.of({"a": torch.ones(4)}, torch.float32)
    damaged = dataclasses.replace(packed, digests={"a": "0" * 32})
    engine: Any = Taking()
    with pytest.raises(EngineError, match="arrived on a node differ"):
        damaged.deliver(store[damaged.content], engine, 1)
    assert not hasattr(engine, "weights")


def test_what_replicas_share_is_packed_once_and_only_when_needed(store: list[Any]) -> None:
    shared = Shared({"a": torch.ones(4)}, VLLMOptions(Path(), vllm_config()))
    assert not store
    assert shared.parcel is shared.parcel
    assert len(store) == 1
