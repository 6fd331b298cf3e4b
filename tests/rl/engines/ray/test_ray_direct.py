"""Weights sent straight to an engine's actor: real actors of Ray, with FAKES of vLLM and of its sender.

The fake sender waits for its peer as NCCL does: without an abort it would wait forever for one that died.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine_helpers import make_request, vllm_config
from mappa_rl.cluster.actors import answer
from mappa_rl.engines import Generation, Request
from mappa_rl.engines.ray import server as module
from mappa_rl.engines.ray.client import RayEngine
from mappa_rl.engines.ray.server import RayServer
from mappa_rl.engines.replicas import ReplicatedEngine
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.weights.base import Receiver, Sent
from mappa_rl.engines.weights.digest import digest
from mappa_rl.errors import ActorLost, EngineError
from ray_cluster import alone

pytest.importorskip("ray")
pytestmark = pytest.mark.slow
WAIT_S = 60.0
DEADLY, DAMAGED = 666.0, 13.0
"""A weight that ends the process which receives it, and one that arrives as another."""


class FakeSender:
    """Sends by ``update_weights``, and returns when a "peer" confirms it. See ``base.Sender``."""

    def __init__(self) -> None:
        self.kept: dict[str, Tensor] = {}
        self.connected, self.aborted = 0, threading.Event()
        self._receiver: Receiver | None = None

    def connect(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.connected += 1
        receiver.init_weight_transfer_engine({"peer": os.getpid()})

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        assert self._receiver is not None
        self.aborted.clear()
        self._receiver.start_weight_update()
        try:
            self._receiver.update_weights({name: float(tensor[0]) for name, tensor in weights.items()})
        except ActorLost:
            assert self.aborted.wait(WAIT_S), "nobody aborted what waits for a peer that is gone"
            raise
        self._receiver.finish_weight_update()
        received = self._receiver.ask("received_digests").result()
        return Sent(4, 1, 0.0, {name: digest(tensor) for name, tensor in weights.items()}, received)

    def keep(self, weights: Mapping[str, Tensor]) -> None:
        self.kept = {name: tensor.clone() for name, tensor in weights.items()}

    def abort(self) -> None:
        self.aborted.set()

    def close(self) -> None:
        self.kept = {}


def host_class() -> type[Any]:
    """Made in a function, so that it travels to the actor by value."""

    class Host:
        """Samples the one weight that it has; answers no request during an update."""

        def __init__(self) -> None:
            self.started = False
            self.weight, self.version = 0.0, 0
            self.calls: list[str] = []

        async def where(self) -> dict[str, Any]:
            from mappa_rl.cluster.actors import here

            return here()

        async def start(
            self, settings: Mapping[str, Any], names: Sequence[str], updates: Mapping[str, Any]
        ) -> None:
            assert settings["direct"]
            assert not updates
            self.started = True

        async def seen(self) -> list[str]:
            return self.calls

        async def begin_update(self, version: int) -> None:
            self._check()
            self.updating = True
            self.next = version
            self.calls.append("begin")

        async def receive(self, method: str, options: Mapping[str, Any]) -> Any:
            from mappa_rl.engines.weights.digest import digest

            self._check()
            self.calls.append(method)
            if method == "update_weights":
                value = options["update_info"]["w"]
                if value == 666.0:
                    os._exit(1)
                self.weight = 0.0 if value == 13.0 else value
            if method == "received_digests":
                return [{"w": digest(torch.tensor([self.weight]))}]
            return None

        async def end_update(self) -> None:
            self.updating, self.version = False, self.next
            self.calls.append("end")

        async def generate(self, name: str, request: Request, aborts: int) -> Generation:
            self._check()
            return Generation((os.getpid(),), (self.weight,), "length", self.version)

        async def abort(self, name: str, aborts: int) -> None:
            pass

        async def close(self, name: str) -> None:
            pass

        def _check(self) -> None:
            from mappa_rl.errors import ActorLost

            if not self.started:
                raise ActorLost("empty")

    return Host


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    from mappa_rl.cluster.session import connect, disconnect

    with alone():
        connect(vllm_config("cluster=ray").cluster)
        yield
        disconnect()


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> list[FakeSender]:
    made: list[FakeSender] = []

    def sender(_: VLLMOptions, address: str = "") -> FakeSender:
        assert address, "engines on other nodes must find this process"
        made.append(FakeSender())
        return made[-1]

    monkeypatch.setattr(module, "on_cpu", lambda: True)
    monkeypatch.setattr(module, "BACKOFF_S", 0.01)
    monkeypatch.setattr(VLLMOptions, "sender", sender)
    return made


def make_server() -> RayServer:
    config = vllm_config("cluster=ray", "cluster.engine_cpus=0.25")
    return RayServer(VLLMOptions(Path("model"), config, direct=True), ["solver"], host_class())


def weights(value: float) -> dict[str, Tensor]:
    return {"w": torch.tensor([value])}


def sampled(engine: Any) -> tuple[float, int]:
    (found,) = engine.generate([make_request((2, 3), 0, 1)])
    return found.logprobs[0], found.version


def test_weights_arrive_and_come_again_to_the_actor_that_replaces_one_that_died(
    senders: list[FakeSender],
) -> None:
    server = make_server()
    engine = RayEngine(server, "solver")
    engine.load_weights(weights(1.5), version=7)
    assert sampled(engine) == (1.5, 7)
    assert engine.last_sync is not None
    assert engine.last_sync.bytes == 4
    calls = answer(server._actor.seen.remote(), "engine")
    update = ["start_weight_update", "update_weights", "finish_weight_update", "received_digests"]
    assert calls == ["init_weight_transfer_engine", "begin", *update, "end"]
    for kill in (True, False):  # the second time, an update finds it
        os.kill(int(answer(server._actor.where.remote(), "engine")["pid"]), signal.SIGKILL)
        if kill:
            assert sampled(engine) == (1.5, 7)
    engine.load_weights(weights(2.5))
    assert sampled(engine) == (2.5, 8)
    (sender,) = senders
    assert sender.connected == 3
    engine.close()
    assert not sender.kept


def test_a_death_in_the_middle_of_an_update_is_noticed_though_the_sender_waits(
    senders: list[FakeSender], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTARTS", 1)
    server = make_server()
    engine = RayEngine(server, "solver")
    engine.load_weights(weights(1.5))
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"engine-solver died 2 times in a row"):
        engine.load_weights(weights(DEADLY))
    assert time.monotonic() - began < 30
    assert senders[0].aborted.is_set()
    with pytest.raises(EngineError, match="died 2 times"):
        sampled(engine)
    engine.close()


def test_weights_that_arrive_damaged_stop_the_engine(senders: list[FakeSender]) -> None:
    engine = RayEngine(make_server(), "solver")
    with pytest.raises(EngineError, match="differ from those sent"):
        engine.load_weights(weights(DAMAGED))
    with pytest.raises(EngineError, match="update of engine-solver's weights failed"):
        sampled(engine)
    engine.close()


def test_replicas_get_the_weights_of_one_source(senders: list[FakeSender]) -> None:
    engine = ReplicatedEngine([RayEngine(make_server(), "solver") for _ in range(2)])
    engine.load_weights(weights(3.5))
    assert [sampled(replica) for replica in engine.replicas] == [(3.5, 1)] * 2
    assert len(senders) == 2
    engine.close()
