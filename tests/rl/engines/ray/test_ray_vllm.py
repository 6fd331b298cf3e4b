"""vLLM in actors of a real Ray cluster on this machine: replicas, adapters, and a node's process killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine_helpers import (
    disturb,
    make_model,
    make_request,
    make_requests,
    needs_vllm,
    vllm_config,
    worst_difference,
)
from mappa_rl.cluster.actors import answer
from mappa_rl.config import Lora
from mappa_rl.engines.make import make_engines
from mappa_rl.engines.weights.base import named_weights
from mappa_rl.engines.weights.digest import combined, digest
from mappa_rl.errors import EngineError
from ray_cluster import alone

pytest.importorskip("ray")
pytestmark = [needs_vllm, pytest.mark.slow]
TOLERANCE = 1e-3
WAIT_S = 300.0
CLUSTER = ["cluster=ray", "cluster.engine_cpus=0.5"]


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    from mappa_rl.cluster.session import connect, disconnect

    with alone():
        connect(vllm_config(*CLUSTER).cluster)
        yield
        disconnect()


def process_of(server: Any) -> int:
    return int(answer(server._actor.where.remote(), server.name)["pid"])


def test_replicas_get_the_weights_and_one_that_is_killed_gets_them_again(tmp_path: Path) -> None:
    from mappa_rl.engines.hf.engine import HFEngine

    make_model().save_pretrained(tmp_path / "model")
    config = vllm_config(*CLUSTER, "engine.replicas=2", f"run.out={tmp_path / 'run'}")
    models: dict[str, Any] = {"solver": make_model()}
    engine: Any = make_engines(config, models, {"solver": tmp_path / "model"}, lora=False)["solver"]
    other = make_model(1)
    try:
        engine.load_weights(other, version=5)
        sent = combined({name: digest(tensor) for name, tensor in named_weights(other).items()})
        assert engine.last_sync.checksum == f"{sent} {sent}"
        assert engine.last_sync.transfers == 2
        servers = [replica._server for replica in engine.replicas]
        assert len({id(server._last["solver"][0]) for server in servers}) == 1
        greedy = make_requests(8, temperature=0.0)
        wanted = HFEngine(other).generate(greedy)
        for replica in engine.replicas:
            done = replica.generate(greedy)
            assert [g.ids for g in done] == [g.ids for g in wanted]
            assert {g.version for g in done} == {5}
        pids = [process_of(server) for server in servers]
        assert len({*pids, os.getpid()}) == 3
        long = [make_request((2, 3, 4 + k), k, 900) for k in range(12)]
        wanted = engine.generate(long)
        futures = [engine.submit(request) for request in long]
        time.sleep(0.3)
        os.kill(pids[0], signal.SIGKILL)
        done = [future.result(timeout=WAIT_S) for future in futures]
        assert sum(a.ids != b.ids for a, b in zip(done, wanted, strict=True)) <= 1  # rounding
        assert {g.version for g in done} == {5}
        assert worst_difference(other, long, done) < TOLERANCE
        assert process_of(servers[0]) != pids[0]
        engine.load_weights(models["solver"])
        for replica in engine.replicas:
            asked = make_requests(8)
            done = replica.generate(asked)
            assert worst_difference(models["solver"], asked, done) < TOLERANCE
            assert {g.version for g in done} == {6}
        log = (tmp_path / "run" / "logs" / "engine-solver.log").read_text()
        assert log.count("vLLM starts on") == 2
        assert (tmp_path / "run" / "logs" / "engine-solver-1.log").read_text().count("vLLM starts on") == 1
        with pytest.raises(EngineError, match="without sleep mode"):
            engine.sleep()
    finally:
        engine.close()


def cores(actor: int) -> list[psutil.Process]:
    """vLLM's own processes, whatever they call themselves."""
    found = [p for p in psutil.Process(actor).children() if "resource_tracker" not in "".join(p.cmdline())]
    assert found, "vLLM computes in another process"
    return found


def straight(folder: Path) -> tuple[Any, Any]:
    """A server that gets weights as by NCCL, and its engine.

    The STAND-IN for NCCL is the shared memory of this machine, with the same calls of vLLM.
    """
    from mappa_rl.engines.ray.client import RayEngine
    from mappa_rl.engines.ray.server import RayServer
    from mappa_rl.engines.vllm.options import VLLMOptions

    make_model().save_pretrained(folder)
    server = RayServer(VLLMOptions(folder, vllm_config(*CLUSTER), direct=True), ["solver"])
    return server, RayEngine(server, "solver")


def check(engine: Any, model: Any, version: int) -> None:
    """The engine samples what ``model`` does, as ``version``."""
    from mappa_rl.engines.hf.engine import HFEngine

    asked = make_requests(4, temperature=0.0)
    done, wanted = engine.generate(asked), HFEngine(model).generate(asked)
    assert [g.ids for g in done] == [g.ids for g in wanted]
    assert {g.version for g in done} == {version}


def test_weights_go_straight_to_an_actor(tmp_path: Path) -> None:
    _, engine = straight(tmp_path)
    try:
        newer = make_model(1)
        engine.load_weights(newer, version=5)
        sent = {name: digest(tensor) for name, tensor in named_weights(newer).items()}
        assert engine.last_sync.checksum == combined(sent)
        check(engine, newer, 5)
    finally:
        engine.close()


@pytest.mark.large
def test_weights_go_straight_to_an_actor_whose_vllm_dies_in_the_middle_of_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, engine = straight(tmp_path)
    try:
        long = [engine.submit(make_request((2, 3, 4 + k), k, 900)) for k in range(4)]
        until = time.monotonic() + WAIT_S
        while answer(server._actor.where.remote(), server.name)["requests"] < len(long):
            assert time.monotonic() < until
        time.sleep(0.3)  # vLLM does not say when it has sampled first tokens
        newer = make_model(1)
        engine.load_weights(newer, version=5)
        assert {future.result(WAIT_S).version for future in long} == {0}, "continued with the new weights"
        sent = {name: digest(tensor) for name, tensor in named_weights(newer).items()}
        assert engine.last_sync.checksum == combined(sent)
        check(engine, newer, 5)
        assert server._direct is not None
        sender, newest = server._direct._sender, make_model(3)
        send = sender.send

        def deadly(weights: Any) -> Any:
            for core in cores(process_of(server)):
                core.suspend()  # it takes the call and does not answer, and no request runs
                threading.Timer(1, core.kill).start()
            monkeypatch.setattr(sender, "send", send)
            return send(weights)

        monkeypatch.setattr(sender, "send", deadly)
        actor = process_of(server)
        engine.load_weights(newest, version=9)
        assert process_of(server) != actor, "it was vLLM that was killed"
        check(engine, newest, 9)
    finally:
        engine.close()


@pytest.mark.large
def test_weights_come_again_when_vllm_or_its_actor_has_died(tmp_path: Path) -> None:
    server, engine = straight(tmp_path)
    newer = make_model(1)
    try:
        engine.load_weights(newer, version=5)
        for whole in (False, True):
            actor = process_of(server)
            for process in [psutil.Process(actor)] if whole else cores(actor):
                process.kill()
            check(engine, newer, 5)
            assert process_of(server) != actor
    finally:
        engine.close()


@pytest.mark.large
def test_adapters_share_an_actor_and_each_takes_its_own_updates(tmp_path: Path) -> None:
    from mappa_rl.models.lora import adapted

    base = make_model()
    base.save_pretrained(tmp_path)
    shape = Lora(rank=4, alpha=8, targets=["q_proj", "v_proj", "down_proj"])
    models = {name: adapted(base, shape, seed) for seed, name in enumerate(("solver", "coder"))}
    config = vllm_config(*CLUSTER, "lora.rank=4")
    engines: Any = make_engines(config, models, dict.fromkeys(models, tmp_path), lora=True)
    asked = make_requests(8)
    try:
        assert engines["solver"]._server is engines["coder"]._server
        for round_ in range(3):
            for name, model in models.items():
                disturb(model, round_)
                engines[name].load_weights(model)
                trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
                assert engines[name].last_sync.bytes == trained
        for name, model in models.items():
            done = engines[name].generate(asked)
            assert worst_difference(model, asked, done) < TOLERANCE
            assert {g.version for g in done} == {3}
        with pytest.raises(EngineError, match="adapted module"):
            engines["solver"].load_weights(base)
    finally:
        for engine in engines.values():
            engine.close()


def test_a_model_that_is_not_on_the_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nowhere is missing on the node .* all nodes share"):
        make_engines(vllm_config(*CLUSTER), {"a": None}, {"a": tmp_path / "nowhere"}, lora=False)
