"""Faults of a model server, drawn at fixed rates, and an outage."""

from __future__ import annotations

import json
import random
import re
import threading
import time
import zlib
from collections import Counter
from typing import Any

import fakes

fake = fakes.load()
KEY = "storm-key-7f3a9c1e5b"
SHARE = 0.05


def grade(call: Any, criterion: str) -> int:
    """The fake's grade of this action, a function of its number."""
    number = re.findall(r"plan: (\d+)", call.text)
    return zlib.crc32(f"{number[-1]}/{criterion}".encode()) % 5


def wrong_schema(server: Any, call: Any) -> Any:
    return fake.answering(score=9.5)(server, call)


def invented_quote(server: Any, call: Any) -> Any:
    found = fake.verdict(server, call)
    found["criteria"]["honesty"]["quote"] = "nobody ever said this"
    return fake.saying(json.dumps(found))(server, call)


def faults(stall_s: float) -> dict[str, Any]:
    return {
        "429": fake.rate_limited(0.1),
        "503": fake.failing(503, f"overloaded, key {KEY}"),
        "stall": fake.stalling(stall_s),
        "cut off": fake.cut_off,
        "truncated": fake.truncated,
        "html": fake.html,
        "empty": fake.empty,
        "blocked": fake.blocked,
        "max tokens": fake.out_of_tokens,
        "out of range": fake.out_of_range,
        "wrong schema": wrong_schema,
        "invented quote": invented_quote,
    }


class Weather:
    """5 % of each fault; from call ``outage`` on, only 503 for two seconds."""

    def __init__(self, stall_s: float, outage: int = -1) -> None:
        self._faults, self._random, self._lock = faults(stall_s), random.Random(1), threading.Lock()
        self._outage, self._until = outage, 0.0
        self.met: Counter[str] = Counter()

    def __call__(self, server: Any, call: Any) -> Any:
        with self._lock:
            drawn = int(self._random.random() / SHARE)
            name = [*self._faults][drawn] if drawn < len(self._faults) else "none"
            if sum(self.met.values()) == self._outage:
                self._until = time.monotonic() + 2.0
            if time.monotonic() < self._until:
                name = "outage"
            self.met[name] += 1
        say = fake.failing(503, f"down, key {KEY}") if name == "outage" else self._faults.get(name, fake.ok)
        return say(server, call)
