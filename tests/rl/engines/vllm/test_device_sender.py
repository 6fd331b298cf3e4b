"""What vLLM's senders between GPUs are told; the senders are FAKES, as no GPU is here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine_helpers import needs_vllm, vllm_config
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.weights import device
from mappa_rl.engines.weights.device import DeviceSender
from mappa_rl.engines.weights.digest import digest

pytestmark = needs_vllm
WEIGHTS = {"a": torch.arange(4.0), "b": torch.ones(2, 3)}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings that vLLM's NCCL sender gets; it sends by ``update_weights``."""
    from vllm.distributed.weight_transfer import nccl_engine

    found: list[Any] = []

    def trainer_init(info: Any, *, client: Any, source: Any) -> Any:
        found.append(info)
        engine = SimpleNamespace(client=client, source=source, shut=0)
        engine.send_weights = lambda: engine.client.update_weights(dict(engine.source))
        engine.shutdown = lambda: found.append("shutdown")
        return engine

    monkeypatch.setattr(nccl_engine.NCCLTrainerWeightTransferEngine, "trainer_init", trainer_init)
    monkeypatch.setattr(device._Source, "__iter__", lambda self: iter(self._weights.items()))
    return found


class Receiver:
    """Digests what arrives."""

    digests: dict[str, str]

    def update_weights(self, weights: Any) -> None:
        self.digests = {name: digest(tensor) for name, tensor in weights.items()}

    def ask(self, method: str) -> Any:
        assert method == "received_digests"
        return SimpleNamespace(result=lambda: [self.digests])


def test_workers_on_other_nodes_meet_the_sender_at_its_address(told: list[Any]) -> None:
    sender = DeviceSender("nccl", torch.float32, world=4, address="10.0.0.7")
    sender.connect(Receiver())  # type: ignore[arg-type]  # as much of it as is used
    for _ in range(2):
        sent = sender.send(WEIGHTS)
        assert sent.received == [sent.digests]
    (info,) = told
    assert (info.master_address, info.world_size, info.rank, info.packed) == ("10.0.0.7", 5, 0, True)
    sender.keep(WEIGHTS)
    sender.abort()
    assert told[1:] == ["shutdown"]
    assert sender.kept.keys() == WEIGHTS.keys(), "what a fresh engine gets outlives an abort"
    sender.connect(Receiver())  # type: ignore[arg-type]
    sender.send(sender.kept)
    assert told[2].master_address == "10.0.0.7"
    assert told[2].master_port, "another meeting"


@pytest.mark.parametrize(
    ("overrides", "direct", "backend"),
    [
        (["cluster=ray"], True, "nccl"),
        (["cluster=ray"], False, "shm"),
        ([], False, "ipc"),
        (["engine.devices=[1]"], False, "nccl"),
    ],
)
def test_the_way_that_weights_take_between_gpus(
    overrides: list[str], direct: bool, backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("mappa_rl.engines.vllm.options.on_cpu", lambda: False)
    options = VLLMOptions(tmp_path, vllm_config(*overrides), direct=direct)
    assert options.backend == backend
    assert type(options.sender()).__name__ == ("SharedMemorySender" if backend == "shm" else "DeviceSender")
