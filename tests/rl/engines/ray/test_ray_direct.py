"""Weights sent straight to an engine's actor: real actors of Ray, with FAKES of vLLM and of its sender."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
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
from mappa_rl.errors import EngineError
from mappa_rl.futures import in_background
from ray_cluster import alone

pytest.importorskip("ray")
pytestmark = pytest.mark.slow
WAIT_S = 60.0
DEADLY, DAMAGED, LARGE = 666.0, 13.0, 14.0
"""Weights: one ends the process that receives it, one arrives as another, one has no room."""


class FakeSender:
    """Sends by ``update_weights``. Like ``DeviceSender``, it does not wait for the dead."""

    def __init__(self) -> None:
        self.kept: dict[str, Tensor] = {}
        self.connected, self.failures = 0, 0
        self._receiver: Receiver | None = None

    def connect(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.connected += 1

    def send(self, weights: Mapping[str, Tensor]) -> Sent:
        assert self._receiver is not None
        self._receiver.start_weight_update()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("NCCL error: unhandled system error")
        self._receiver.update_weights({name: float(tensor[0]) for name, tensor in weights.items()})
        self._receiver.finish_weight_update()
        received = self._receiver.ask("received_digests").result()
        return Sent(4, 1, 0.0, {name: digest(tensor) for name, tensor in weights.items()}, received)

    def keep(self, weights: Mapping[str, Tensor]) -> None:
        self.kept = {name: tensor.clone() for name, tensor in weights.items()}

    def close(self) -> None:
        self.kept = {}


def host_class() -> type[Any]:
    """Made in a function, so that it travels to the actor by value."""

    class Host:
        """Samples the one weight that it has."""

        def __init__(self) -> None:
            self.started = self.waits = False
            self.weight, self.version = 0.0, 0
            self.calls: list[str] = []

        async def where(self) -> dict[str, Any]:
            from mappa_rl.cluster.actors import here

            return here()

        async def start(
            self,
            settings: Mapping[str, Any],
            names: Sequence[str],
            updates: Mapping[str, Any],
            waits: bool,
        ) -> None:
            assert settings["direct"]
            assert not updates
            self.started, self.waits = True, waits

        async def seen(self) -> list[str]:
            return self.calls

        async def begin_update(self, version: int) -> None:
            self._check()
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
                if value == 14.0:
                    raise RuntimeError("CUDA out of memory")
                self.weight = 0.0 if value == 13.0 else value
            if method == "received_digests":
                return [{"w": digest(torch.tensor([self.weight]))}]
            return None

        async def end_update(self) -> None:
            self.waits, self.version = False, self.next
            self.calls.append("end")

        async def generate(self, name: str, request: Request, aborts: int) -> Generation:
            self._check()
            assert not self.waits, "it has no weights yet"
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

    def sender(_: VLLMOptions, address: str) -> FakeSender:
        assert address, "engines on other nodes must find this process"
        made.append(FakeSender())
        return made[-1]

    monkeypatch.setattr(module, "on_cpu", lambda: True)
    monkeypatch.setattr(module, "BACKOFF_S", 0.01)
    monkeypatch.setattr(VLLMOptions, "sender", sender)
    return made


@pytest.fixture
def make_server(tmp_path: Path) -> Callable[[], RayServer]:
    save_file(weights(0.0), tmp_path / "model.safetensors")
    config = vllm_config("cluster=ray", "cluster.engine_cpus=0.25")
    options = VLLMOptions(tmp_path, config, direct=True)
    return lambda: RayServer(dataclasses.replace(options, halted=threading.Event()), ["solver"], host_class())


def weights(value: float) -> dict[str, Tensor]:
    return {"w": torch.tensor([value])}


def sampled(engine: Any) -> tuple[float, int]:
    (found,) = engine.generate([make_request((2, 3), 0, 1)])
    return found.logprobs[0], found.version


def test_weights_arrive_and_come_again_to_the_actor_that_replaces_one_that_died(
    senders: list[FakeSender], make_server: Callable[[], RayServer]
) -> None:
    server = make_server()
    engine = RayEngine(server, "solver")
    engine.load_weights(weights(1.5), version=7)
    assert sampled(engine) == (1.5, 7)
    assert engine.last_sync is not None
    assert engine.last_sync.bytes == 4
    calls = answer(server._actor.seen.remote(), "engine")
    update = ["start_weight_update", "update_weights", "finish_weight_update", "received_digests"]
    assert calls == ["begin", *update, "end"]
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


@pytest.mark.large
def test_an_update_that_always_ends_the_process_is_given_up_though_requests_are_answered_between(
    senders: list[FakeSender], make_server: Callable[[], RayServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTARTS", 2)
    engine = RayEngine(make_server(), "solver")
    engine.load_weights(weights(1.5))
    over, seen = threading.Event(), set[tuple[float, int]]()

    def ask() -> None:
        while not over.is_set():
            try:
                seen.add(sampled(engine))
            except EngineError:
                return

    asking = in_background(ask)
    with pytest.raises(EngineError, match=r"engine-solver died 3 times in a row"):
        engine.load_weights(weights(DEADLY))
    over.set()
    asking.result(WAIT_S)
    assert seen == {(1.5, 1)}
    with pytest.raises(EngineError, match="died 3 times"):
        sampled(engine)
    engine.close()


@pytest.mark.parametrize(
    ("value", "message"), [(DAMAGED, "differ from those sent"), (LARGE, "CUDA out of memory")]
)
def test_an_update_that_fails_stops_the_engine(
    senders: list[FakeSender], make_server: Callable[[], RayServer], value: float, message: str
) -> None:
    engine = RayEngine(make_server(), "solver")
    with pytest.raises(Exception, match=message):
        engine.load_weights(weights(value))
    with pytest.raises(EngineError, match=f"update of engine-solver's weights failed.*{message}"):
        sampled(engine)
    engine.close()


@pytest.mark.large
def test_no_request_is_answered_by_a_fresh_actor_that_did_not_get_the_last_weights(
    senders: list[FakeSender], make_server: Callable[[], RayServer]
) -> None:
    server = make_server()
    engine = RayEngine(server, "solver")
    engine.load_weights(weights(1.5), version=7)
    senders[0].failures = 2
    os.kill(int(answer(server._actor.where.remote(), "engine")["pid"]), signal.SIGKILL)
    assert sampled(engine) == (1.5, 7)
    assert senders[0].connected == 4, "two tries failed"
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.load_weights(weights(1.5))


def test_weights_of_another_model_are_refused_before_they_are_sent(
    senders: list[FakeSender], make_server: Callable[[], RayServer]
) -> None:
    engine = RayEngine(make_server(), "solver")
    with pytest.raises(EngineError, match="do not fit the engine's model"):
        engine.load_weights({"w": torch.zeros(2)})
    engine.load_weights(weights(1.5))
    assert sampled(engine) == (1.5, 1)
    engine.close()


def test_replicas_get_the_weights_of_one_source(
    senders: list[FakeSender], make_server: Callable[[], RayServer]
) -> None:
    engine = ReplicatedEngine([RayEngine(make_server(), "solver") for _ in range(2)])
    engine.load_weights(weights(3.5))
    assert [sampled(replica) for replica in engine.replicas] == [(3.5, 1)] * 2
    assert len(senders) == 2
    engine.close()
