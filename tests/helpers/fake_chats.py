"""Servers with OpenAI's chat API on loopback whose models act: what they say is scripted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import fake_llm as fakes
from fake_llm import Call, FakeServer

Speak = Callable[[Call], str]


def speaking(speak: Speak, **changes: Any) -> Callable[[FakeServer, Call], tuple[int, dict[str, str], bytes]]:
    """A server whose model says ``speak(call)``; ``changes`` as in ``fake_llm.envelope``."""

    def say(fake: FakeServer, call: Call) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, json.dumps(fakes.envelope(fake, speak(call), **changes)).encode()

    return say


def multiplier(call: Call) -> str:
    """Always claims that the answer is 42."""
    return "plan: 6 * 7\nI did it.\nThe answer is \\boxed{42}."
