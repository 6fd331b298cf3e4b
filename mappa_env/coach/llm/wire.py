"""What travels between the coach and a model's server: one request, one reply, and how a reply can fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """``system`` and ``parts`` are sent in this order, what rarely changes first, so that servers can cache.

    ``schema``: the JSON schema of the reply. ``sample``: which of several independent answers this one is.
    """

    system: str
    parts: tuple[str, ...]
    schema: Mapping[str, Any] = field(repr=False)
    max_output_tokens: int = 2048
    sample: int = 0

    @property
    def size(self) -> int:
        """Bytes of the prompt: an upper bound of its tokens."""
        return sum(len(text.encode("utf-8", "replace")) for text in (self.system, *self.parts))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. ``cached`` are part of ``prompt``; ``thoughts`` are not of ``output``, and billed like it."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    thoughts: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.output + other.output,
            self.thoughts + other.thoughts,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """``model_version``: the model that answered, as the server names it; empty where it does not say."""

    text: str
    usage: Usage
    model_version: str
    response_id: str = ""


class Backend(Protocol):
    """A server that answers requests. Safe to use from many threads."""

    name: str

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """One call, tried once, within about ``timeout_s``. Raises Passing, Unanswered, CoachStopped."""
        ...

    def close(self) -> None: ...


class Passing(Exception):
    """Worth another try: overload, rate limits, a broken connection, half an answer.

    ``wait_s``: how long the server asks to wait; None where it does not say. ``billed``: it may cost.
    """

    def __init__(self, message: str, wait_s: float | None = None, *, billed: bool = True) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.billed = billed
        self.calls = 1


class Unanswered(Exception):
    """The server worked and gave no verdict: it blocked the prompt, said nothing, or was cut off.

    ``final``: asking again is pointless. ``usage`` is billed all the same.
    """

    def __init__(self, message: str, usage: Usage, model_version: str = "", *, final: bool = False) -> None:
        super().__init__(message)
        self.usage = usage
        self.model_version = model_version
        self.final = final
        self.latency_s = 0.0
        """Of the last call."""
        self.calls = 1
        """Made in vain, the last one included."""
