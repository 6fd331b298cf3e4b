"""Calls to an engine's actor, its death and its end: real actors of Ray, with a FAKE host in vLLM's place."""

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

from engine_helpers import make_request, vllm_config
from mappa_rl.cluster.actors import answer
from mappa_rl.engines import Generation, Request
from mappa_rl.engines.ray import server as module
from mappa_rl.engines.ray.client import RayEngine
from mappa_rl.engines.ray.server import RayServer
from mappa_rl.engines.replicas import ReplicatedEngine
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.weights.base import SyncStats
from mappa_rl.errors import ClusterError, EngineError
from ray_cluster import alone

pytest.importorskip("ray")
pytestmark = pytest.mark.slow
WAIT_S = 60.0
DEADLY = 13
"""A request with this stop token ends the process."""


def host_class() -> type[Any]:
    """Made in a function, so that it travels to the actor by value."""

    class Host:
        """Answers with its process's id and with the one weight that it has, after ``max_tokens`` ms."""

        def __init__(self) -> None:
            self.weights: dict[str, tuple[float, int]] | None = None
            self.aborted = False

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
            assert not waits
            self.weights = {name: (0.0, 0) for name in names}
            for name, (parcel, version) in updates.items():
                await self.load(name, parcel, version)

        async def generate(self, name: str, request: Request, aborts: int) -> Generation:
            import asyncio

            from mappa_rl.errors import ActorLost

            if self.weights is None:
                raise ActorLost("empty")
            if request.stop_ids == (13,):
                os._exit(1)
            until = time.monotonic() + request.max_tokens / 1000
            while time.monotonic() < until and not self.aborted:
                await asyncio.sleep(0.01)
            value, version = self.weights[name]
            return Generation((os.getpid(),), (value,), "abort" if self.aborted else "length", version)

        async def abort(self, name: str, aborts: int) -> None:
            self.aborted = True

        async def load(self, name: str, parcel: Any, version: int) -> SyncStats:
            class Engine:
                def load_weights(_, weights: Mapping[str, torch.Tensor], version: int) -> None:
                    assert self.weights is not None
                    self.weights[name] = (float(weights["w"][0]), version)

            parcel.deliver(await parcel.content, Engine(), version)
            return SyncStats(4, 1, 0.0, 0.0, "")

        async def close(self, name: str) -> None:
            from mappa_rl.errors import ActorLost

            if self.weights is None:
                raise ActorLost("empty")
            del self.weights[name]

    return Host


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    from mappa_rl.cluster.session import connect, disconnect

    with alone():
        connect(vllm_config("cluster=ray").cluster)
        yield
        disconnect()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "on_cpu", lambda: True)
    monkeypatch.setattr(module, "BACKOFF_S", 0.01)


def make_server(names: Sequence[str] = ("solver",), *overrides: str) -> RayServer:
    config = vllm_config("cluster=ray", "cluster.engine_cpus=0.25", *overrides)
    return RayServer(VLLMOptions(Path("model"), config), names, host_class())


def process_of(server: RayServer) -> int:
    return int(answer(server._actor.where.remote(), server.name)["pid"])


def lasting(ms: int) -> Request:
    return make_request((2, 3), 0, ms)


def test_a_death_costs_no_request_and_no_update_and_others_go_on() -> None:
    server = make_server(("solver", "coder"))
    solver, coder = RayEngine(server, "solver"), RayEngine(server, "coder")
    began = time.monotonic()
    futures = [solver.submit(lasting(900)) for _ in range(200)]
    assert {g.version for g in (future.result(WAIT_S) for future in futures)} == {0}
    assert time.monotonic() - began < 30, "200 requests of 0.9 s run side by side"
    solver.load_weights({"w": torch.tensor([1.5])}, version=7)
    assert solver.version == 7
    assert solver.last_sync is not None
    assert solver.last_sync.bytes == 4
    coder.load_weights({"w": torch.tensor([2.5])})
    assert coder.version == 1
    before = process_of(server)
    futures = [engine.submit(lasting(800)) for engine in (solver, coder) for _ in range(20)]
    time.sleep(0.3)
    os.kill(before, signal.SIGKILL)
    done = [future.result(WAIT_S) for future in futures]
    assert [(g.logprobs, g.version) for g in done] == [((1.5,), 7)] * 20 + [((2.5,), 1)] * 20
    (after,) = {g.ids[0] for g in done}
    assert after != before
    # An update while nobody runs the weights.
    os.kill(after, signal.SIGKILL)
    solver.load_weights({"w": torch.tensor([3.5])})
    assert (solver.generate([lasting(1)])[0].logprobs, solver.version) == ((3.5,), 8)
    assert coder.generate([lasting(1)])[0].logprobs == (2.5,)
    # One leaves, the other plays on; with the last one the process ends.
    solver.close()
    with pytest.raises(EngineError, match="closed"):
        solver.submit(lasting(1)).result(WAIT_S)
    assert coder.generate([lasting(1)])[0].logprobs == (2.5,)
    pid = process_of(server)
    coder.close()
    coder.close()
    until = time.monotonic() + WAIT_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_actor_that_dies_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTARTS", 1)
    engine = RayEngine(make_server(), "solver")
    deadly = make_request((2, 3), 0, 5, stop_ids=(DEADLY,))
    waiting = engine.submit(lasting(60_000))
    for asked in (deadly, lasting(1)):
        with pytest.raises(EngineError, match=r"engine-solver died 2 times in a row"):
            engine.submit(asked).result(WAIT_S)
    with pytest.raises(EngineError, match="died 2 times"):
        waiting.result(WAIT_S)
    with pytest.raises(EngineError, match="died 2 times"):
        engine.load_weights({"w": torch.tensor([1.0])})
    engine.close()


def test_an_abort_ends_what_runs_and_a_cancelled_request_is_not_asked_again() -> None:
    engine = RayEngine(make_server(), "solver")
    futures = [engine.submit(lasting(60_000)) for _ in range(5)]
    assert futures[0].cancel()
    time.sleep(0.3)
    engine.abort()
    assert {future.result(WAIT_S).stopped for future in futures[1:]} == {"abort"}
    engine.close()


def test_an_abort_reaches_what_waits_for_an_actor_that_died() -> None:
    server = make_server()
    engine = RayEngine(server, "solver")
    futures = [engine.submit(lasting(20_000))]
    time.sleep(0.3)
    os.kill(process_of(server), signal.SIGKILL)
    until = time.monotonic() + WAIT_S
    while server._open.is_set():
        assert time.monotonic() < until
        time.sleep(0.01)
    futures.append(engine.submit(lasting(20_000)))
    engine.abort()
    began = time.monotonic()
    assert {future.result(WAIT_S).stopped for future in futures} == {"abort"}
    assert time.monotonic() - began < 20
    engine.close()


def test_replicas_share_one_parcel() -> None:
    servers = [make_server() for _ in range(2)]
    engines = [RayEngine(server, "solver") for server in servers]
    engine = ReplicatedEngine(engines, engines[0].shared)
    engine.load_weights({"w": torch.tensor([4.5])})
    one, two = (server._last["solver"] for server in servers)
    assert one[0] is two[0]
    assert (one[1], two[1], engine.version) == (1, 1, 1)
    done = engine.generate([lasting(50)] * 4)
    assert {g.logprobs for g in done} == {(4.5,)}
    assert len({g.ids for g in done}) == 2
    engine.close()


def test_an_engine_without_room_says_what_it_wants() -> None:
    with pytest.raises(ClusterError, match=r"engine-solver was not placed .*placement_s=1: it wants 999 CPU"):
        make_server(("solver",), "cluster.engine_cpus=999", "cluster.placement_s=1")
    wanted = r"it wants 0.25 CPU, 1 big, free"
    with pytest.raises(ClusterError, match=wanted):
        make_server(("solver",), "cluster.engine_node=big", "cluster.placement_s=1")


def test_a_start_that_nobody_waits_for_ends() -> None:
    config = vllm_config("cluster=ray", "cluster.engine_cpus=999", "cluster.placement_s=600")
    options = VLLMOptions(Path("model"), config)
    threading.Timer(0.5, options.halted.set).start()
    with pytest.raises(EngineError, match="closed while it started"):
        RayServer(options, ["solver"], host_class())
