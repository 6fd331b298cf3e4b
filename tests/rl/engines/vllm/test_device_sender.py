"""What vLLM's senders between GPUs are told; the senders are FAKES, as no GPU is here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine_helpers import needs_vllm, vllm_config
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.weights import device
from mappa_rl.engines.weights.base import gpu_bucket
from mappa_rl.engines.weights.device import DeviceSender
from mappa_rl.engines.weights.digest import digest
from mappa_rl.errors import EngineError
from mappa_rl.futures import in_background

pytestmark = needs_vllm
WAIT_S = 60.0
WEIGHTS = {"a": torch.arange(4.0), "b": torch.ones(2, 3)}


class Vllm:
    """vLLM's NCCL sender, as a FAKE that waits for its workers for ever, until it is shut down."""

    def __init__(self) -> None:
        self.meetings: list[Any] = []
        self.shut = 0
        self.stuck, self.meets = False, True
        self.sent: list[str] = []
        self.freed = threading.Event()

    def trainer_init(self, info: Any, *, client: Any, source: Any) -> Any:
        self.meetings.append(info)
        joining = in_background(lambda: client.init_weight_transfer_engine({}))
        if not self.meets:
            self.freed.wait(WAIT_S)
            raise RuntimeError("nobody came")
        joining.result()
        engine = SimpleNamespace(client=client, source=source)
        engine.send_weights, engine.shutdown = lambda: self._send(engine), self._shut_down
        return engine

    def _send(self, engine: Any) -> None:
        engine.client.start_weight_update()
        source = iter(engine.source)
        first = dict([next(source)])
        receiving = in_background(lambda: engine.client.update_weights(first | dict(source)))
        if self.stuck:  # in a broadcast to workers that will not answer
            self.freed.wait(WAIT_S)
            self.sent += [name for name, _ in engine.source]
        receiving.result()
        engine.client.finish_weight_update()

    def _shut_down(self) -> None:
        self.shut += 1
        self.freed.set()


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vllm]:
    from vllm.distributed.weight_transfer import nccl_engine

    found = Vllm()
    monkeypatch.setattr(nccl_engine.NCCLTrainerWeightTransferEngine, "trainer_init", found.trainer_init)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_: tensor)
    yield found
    found.freed.set()


class Receiver:
    """Digests what arrives, or fails in a method."""

    digests: dict[str, str]

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def init_weight_transfer_engine(self, init_info: Any) -> None:
        self._work("init")

    def start_weight_update(self) -> None:
        self._work("start")

    def update_weights(self, weights: Any) -> None:
        self._work("update")
        self.digests = {name: digest(tensor) for name, tensor in weights.items()}

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._work("finish")

    def ask(self, method: str) -> Any:
        assert method == "received_digests"
        return SimpleNamespace(result=lambda: [self.digests])

    def _work(self, method: str) -> None:
        if method == self.fails:
            raise EngineError("CUDA out of memory")


def connected(receiver: Receiver) -> DeviceSender:
    sender = DeviceSender("nccl", torch.float32, world=4, address="10.0.0.7")
    sender.connect(receiver)  # type: ignore[arg-type]  # as much of it as is used
    return sender


def test_workers_on_other_nodes_meet_the_sender_at_its_address(vllm: Vllm) -> None:
    sender = connected(Receiver())
    for _ in range(2):
        sent = sender.send(WEIGHTS)
        assert sent.received == [sent.digests]
    (info,) = vllm.meetings
    assert (info.master_address, info.world_size, info.rank, info.packed) == ("10.0.0.7", 5, 0, True)
    sender.close()
    assert vllm.shut == 1


@pytest.mark.parametrize("fails", ["init", "start", "update", "finish"])
def test_what_fails_in_a_worker_ends_a_sender_that_waits_for_it(vllm: Vllm, fails: str) -> None:
    receiver = Receiver()
    sender = connected(receiver)
    if fails != "init":
        sender.send(WEIGHTS)
        sender.keep(WEIGHTS)
    receiver.fails, vllm.stuck, vllm.meets = fails, fails == "update", fails != "init"
    began = time.monotonic()
    with pytest.raises(EngineError, match="out of memory"):
        sender.send(WEIGHTS)
    assert time.monotonic() - began < 5
    assert vllm.shut == (fails != "init")
    assert not vllm.sent, "nothing more goes to a communicator that is being freed"
    assert bool(sender.kept) == (fails != "init"), "what a fresh engine gets outlives a failure"
    vllm.stuck, vllm.meets = False, True
    sender.connect(Receiver())  # type: ignore[arg-type]
    sent = sender.send(WEIGHTS)
    assert sent.received == [sent.digests]
    assert len(vllm.meetings) == 2, "the fresh engine meets the sender again"


def test_an_interrupt_leaves_no_sender_at_work(vllm: Vllm, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = connected(Receiver())
    sender.send(WEIGHTS)
    vllm.stuck = True

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(device, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sender.send(WEIGHTS)
    assert vllm.shut == 1


def test_large_weights_travel_in_buckets_that_gpus_have_room_for() -> None:
    assert gpu_bucket(2**20) == 16 * 2**20
    assert gpu_bucket(7 * 2**28) == 2**28
    assert gpu_bucket(140 * 2**30) == 2**30


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
    name = "SharedMemorySender" if backend == "shm" else "DeviceSender"
    assert type(options.sender("127.0.0.1")).__name__ == name
