"""Requests are spread over replicas; an episode stays with one. The protocol: ``test_engine_contract.py``."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest

from engine_helpers import make_request, vllm_config
from mappa_rl.engines import Generation, Request, replicas
from mappa_rl.engines.replicas import ReplicatedEngine
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.weights.base import SyncStats
from mappa_rl.errors import ConfigError, EngineError

DONE = Generation((1,), (-0.5,), "eos")


class Slow:
    """A FAKE engine that answers when it is told to. ``asked``: the episodes of its requests, in order."""

    def __init__(self, *, failing: bool = False, max_len: int = 64) -> None:
        self.version, self.max_len, self.last_sync = 0, max_len, SyncStats(10, 1, 0.5)
        self.asked: list[str] = []
        self.waiting: list[Future[Generation]] = []
        self.failing, self.closed = failing, False

    def submit(self, request: Request) -> Future[Generation]:
        if self.failing:
            raise EngineError("it is dead")
        self.asked.append(request.episode)
        self.waiting.append(Future())
        return self.waiting[-1]

    def load_weights(self, source: object, version: int | None = None) -> None:
        assert version is not None
        self.version = version

    def close(self) -> None:
        self.closed = True
        if self.failing:
            raise EngineError("it cannot be closed")


def asking(episode: str = "") -> Request:
    return dataclasses.replace(make_request((1, 2, 3), 0, 5), episode=episode)


def pair(**options: Any) -> tuple[ReplicatedEngine, Slow, Slow]:
    one, two = Slow(**options), Slow()
    return ReplicatedEngine([one, two]), one, two  # type: ignore[list-item]


def test_requests_go_where_the_fewest_run() -> None:
    engine, one, two = pair()
    for _ in range(6):
        engine.submit(asking())
    assert len(one.waiting) == len(two.waiting) == 3
    for future in two.waiting:
        future.set_result(DONE)
    for _ in range(3):
        engine.submit(asking())
    assert (len(one.waiting), len(two.waiting)) == (3, 6)


def test_an_episode_stays_with_its_replica_whatever_the_load() -> None:
    engine, one, two = pair()
    for episode in ("a", "b", "a", "a", "a", "b"):
        engine.submit(asking(episode))
    assert (one.asked, two.asked) == (["a"] * 4, ["b"] * 2)
    engine.submit(asking("c"))
    assert two.asked[-1] == "c"


def test_only_so_many_episodes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "REMEMBERED", 3)
    engine, one, two = pair()
    for episode in ("a", "b", "c", "d", "a"):
        engine.submit(asking(episode))
        assert len(engine._places) <= 3
    assert one.asked + two.asked == ["a", "c", "a", "b", "d"]  # "a" was forgotten: placed again


def test_replicas_without_load_take_turns() -> None:
    engine, one, two = pair()
    for number in range(6):
        future = engine.submit(asking(f"{number}"))
        (one if one.waiting and one.waiting[-1] is future else two).waiting[-1].set_result(DONE)
    assert len(one.asked) == len(two.asked) == 3


def test_a_replica_that_refuses_has_nothing_running() -> None:
    engine, one, two = pair(failing=True)
    with pytest.raises(EngineError, match="dead"):
        engine.submit(asking("a"))
    assert not +engine._running
    engine.submit(asking("a"))  # its retry goes to another one
    assert two.asked == ["a"]
    assert not one.asked


def test_a_replica_whose_answers_are_errors_gets_what_is_left() -> None:
    engine, one, two = pair()
    engine.submit(asking("a"))
    one.waiting.pop().set_exception(EngineError("it died"))
    for episode in ("a", "b", "c"):
        engine.submit(asking(episode))
    assert (one.asked, two.asked) == (["a"], ["a", "b", "c"])
    engine.submit(asking("d"))
    one.failing = two.failing = True
    for _ in range(3):
        with pytest.raises(EngineError, match="dead"):
            engine.submit(asking())
    one.failing = two.failing = False
    for future in two.waiting:
        future.set_result(DONE)
    engine.submit(asking("e"))
    assert "e" in two.asked


def test_weights_and_costs_are_those_of_all() -> None:
    engine, one, two = pair()
    engine.load_weights({})
    assert engine.version == one.version == two.version == 1
    assert engine.last_sync == SyncStats(20, 2, 1.0)
    engine.load_weights({}, 7)
    assert engine.version == one.version == two.version == 7
    assert ReplicatedEngine([one, Slow(max_len=32)]).max_len == 32  # type: ignore[list-item]


def test_all_are_closed_also_if_one_cannot_be() -> None:
    engine, one, two = pair(failing=True)
    with pytest.raises(EngineError, match="cannot be closed"):
        engine.close()
    assert one.closed
    assert two.closed
    with pytest.raises(EngineError, match="at least one"):
        ReplicatedEngine([])


def test_threads_share_it() -> None:
    engine, one, two = pair()

    def ask(thread: int) -> None:
        for number in range(50):
            engine.submit(asking(f"{thread}-{number % 5}"))

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(one.asked) + len(two.asked) == 400
    assert not set(one.asked) & set(two.asked)
    assert sum(engine._running.values()) == 400
    for future in (*one.waiting, *two.waiting):
        future.set_result(DONE)
    assert not +engine._running
    assert Counter(one.asked + two.asked).most_common(1)[0][1] == 10


def test_each_replica_has_its_own_devices(tmp_path: Any) -> None:
    config = vllm_config("engine.replicas=2", "engine.tensor_parallel=2", "engine.devices=[3,4,6,7]")
    devices = [VLLMOptions(tmp_path, config, replica=replica).devices for replica in range(2)]
    assert devices == [[3, 4], [6, 7]]
    with pytest.raises(ConfigError, match="exactly 4 GPUs"):
        vllm_config("engine.replicas=2", "engine.tensor_parallel=2", "engine.devices=[3,4]")
