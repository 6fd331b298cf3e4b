"""The messages between the coach and a model's server: request, reply, and failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

ROOM = 64
"""Bytes, about, of what a chat template adds to a message."""
TOO_LONG, REFUSED = "too_long", "refused"
"""Why a server will not take a request: it does not fit the model's context, or a filter stops it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question. ``system`` and ``parts`` are sent in this order, so servers can cache the prefix.

    ``schema``: the JSON schema of the reply. ``sample``: index among several independent answers.
    """

    system: str
    parts: tuple[str, ...]
    schema: Mapping[str, Any] = field(repr=False)
    max_output_tokens: int = 2048
    sample: int = 0

    @property
    def size(self) -> int:
        """Bytes of the prompt and of the schema, which servers add to it: an upper bound of its tokens."""
        prompt = sum(len(text.encode("utf-8", "replace")) for text in (self.system, *self.parts))
        return prompt + (len(json.dumps(self.schema)) + 4 * ROOM if self.schema else 0)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. ``prompt`` includes ``cached``; ``output`` excludes ``thoughts``, which cost the same.

    ``known`` False: the server did not say all of them, and what it did not say is 0 here.
    """

    prompt: int = 0
    cached: int = 0
    output: int = 0
    thoughts: int = 0
    known: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.output + other.output,
            self.thoughts + other.thoughts,
            self.known and other.known,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``model_version``: the model that answered, by the server's name; empty if unknown."""

    text: str
    usage: Usage
    model_version: str
    response_id: str = ""


class Backend(Protocol):
    """A server that answers requests. Thread-safe."""

    name: str

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """Make one call without retries within about ``timeout_s``.

        Raises Passing, Rejected, Unanswered, CoachStopped.
        """
        ...

    def close(self) -> None:
        """Close the connections."""


class Passing(Exception):
    """A temporary failure: overload, rate limits, a broken connection, a truncated response.

    ``wait_s``: seconds that the server asks to wait; None: not specified. ``billed``: it may cost money.
    """

    def __init__(self, message: str, wait_s: float | None = None, *, billed: bool = True) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.billed = billed
        self.calls = 1


class Unreachable(Passing):
    """There is no connection to the server: refused, or its host is unknown or away. Nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, billed=False)


class Late(Passing):
    """The answer did not come in time."""


class Blocked(Passing):
    """The circuit breaker let no call through in time."""


class Rejected(Exception):
    """The server will not take this one request; another may be taken. Nothing was generated or billed.

    ``kind``: ``TOO_LONG``, ``REFUSED`` (by a filter of prompts), or empty for other reasons.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.calls = 1
        """Calls that were made, including this one."""


class Unanswered(Exception):
    """The server answered without a verdict: it blocked the prompt, or the answer is empty or truncated.

    ``final``: retrying is pointless. ``usage`` is billed anyway.
    """

    def __init__(self, message: str, usage: Usage, model_version: str = "", *, final: bool = False) -> None:
        super().__init__(message)
        self.usage = usage
        self.model_version = model_version
        self.final = final
        self.latency_s = 0.0
        """Of the last call."""
        self.calls = 1
        """Calls without an answer, including the last."""
