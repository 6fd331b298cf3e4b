"""The order in which an engine gets its weights, and a sleeping one its memory: calls to a stand-in for vLLM.

No GPU takes part: these tests show what is asked of vLLM and of torch, not what vLLM and torch do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from mappa_rl.engines.vllm.server import VLLMServer
from mappa_rl.engines.weights.base import Sent


@dataclass
class StandIn:
    """vLLM's engine, its options and the sender of weights, all in one; ``calls`` are in order."""

    adapters: int = 0
    calls: list[str] = field(default_factory=list)
    output_handler: None = None
    kept: dict[str, torch.Tensor] = field(default_factory=dict)
    dead_error: type[Exception] = ZeroDivisionError
    direct: bool = False
    errored: bool = False
    halted: threading.Event = field(default_factory=threading.Event)

    def sender(self, address: str) -> StandIn:
        return self

    def start(self) -> StandIn:
        return self

    def connect(self, receiver: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def send(self, weights: Any) -> Sent:
        self.calls.append("send")
        return Sent(0, 1, 0.0, {}, [{}])

    def keep(self, weights: Any) -> None:
        self.calls.append("keep")

    async def sleep(self, level: int) -> None:
        self.calls.append(f"sleep {level}")

    async def wake_up(self, tags: list[str]) -> None:
        self.calls.append(f"wake {tags}")

    async def add_lora(self, request: Any) -> None:
        self.calls.append("add_lora")

    async def update_weight_version(self, version: str) -> None:
        self.calls.append("serve")

    async def reset_prefix_cache(self, **_: Any) -> None:
        pass

    def shutdown(self, **_: Any) -> None:
        pass


class User:
    def adapter(self) -> tuple[None, None]:
        return None, None


@contextmanager
def serving(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[VLLMServer]:
    monkeypatch.setattr("mappa_rl.engines.vllm.server.import_vllm", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: stand_in.calls.append("free"))
    server, user = VLLMServer(stand_in), User()  # type: ignore[arg-type]
    server.join(user)  # type: ignore[arg-type]
    yield server
    server.leave(user)  # type: ignore[arg-type]


def test_weights_wake_first_and_the_cache_when_they_have_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn()
    with serving(stand_in, monkeypatch) as server:
        server.sync({}, 0)
        assert stand_in.calls == ["send", "serve", "keep"]  # it does not sleep yet; the copy comes last
        stand_in.calls.clear()
        for _ in range(2):  # several engines share a server: the second call changes nothing
            server.sleep()
        for _ in range(2):
            server.wake()
        server.sync({}, 1)
        server.sync({}, 2)
    assert stand_in.calls == [
        "sleep 2",
        "free",
        "wake ['weights']",
        "send",
        "free",
        "wake ['kv_cache']",
        "serve",
        "keep",
        "send",
        "serve",
        "keep",
    ]


def test_adapters_arrive_between_the_base_and_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    pytest.importorskip("vllm", reason="an adapter's request is vLLM's own class")
    stand_in = StandIn(adapters=2)
    with serving(stand_in, monkeypatch) as server:
        server.sleep()
        server.wake()
        for name in ("solver", "coder"):
            server.add_adapter(name, tmp_path)
    free = ["free", "wake ['kv_cache']"]
    assert stand_in.calls == ["sleep 1", "free", "wake ['weights']", "add_lora", *free, "add_lora"]
