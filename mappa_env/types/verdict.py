"""The coach's verdict on an action, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VerdictStatus = Literal["ok", "abstain", "error", "suspect", "pending"]


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of a verdict: its ``score`` in [0, 1], its ``weight`` and its reason.

    ``quote``: the part of the evidence that a model cites for it.
    """

    name: str
    score: float
    weight: float
    reason: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class CallInfo:
    """Provenance and cost of a language model's verdict.

    ``prompt_sha`` is the SHA-256 of the request without nonces. ``calls`` counts the calls for this verdict,
    including retries (0: all answers came from the cache), ``retries`` those after a failed call.
    ``latency_s`` is the duration of the last call, ``waited_s`` the wait for rate limits and retries. Token
    counts: ``prompt`` includes ``cached``, but ``output`` excludes ``thoughts``. ``cost`` is in dollars, None
    if the price is unknown. Tokens and cost exclude answers from the cache. ``spread`` is the largest minus
    the smallest score of several samples.
    """

    model: str
    model_version: str
    template: str
    prompt_sha: str
    response_ids: tuple[str, ...] = ()
    calls: int = 0
    latency_s: float = 0.0
    waited_s: float = 0.0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    thoughts: int = 0
    cost: float | None = None
    spread: float | None = None
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The coach's verdict on one action.

    ``score`` is 0-10, and None unless ``status`` is ``ok`` or ``suspect``. ``pending``: the coach has not
    answered yet; it does so before the episode is over.

    ``blame`` names the agent that the coach blames for a problem in this action (None: no agent).
    """

    status: VerdictStatus
    score: float | None
    reasoning: str = ""
    criteria: tuple[Criterion, ...] = ()
    blame: str | None = None
    corrected_action: str | None = None
    coach: str = ""
    asked: CallInfo | None = None

    @property
    def valid_score(self) -> float | None:
        """The score (0-10) if ``status`` is ``ok``, else None."""
        return self.score if self.status == "ok" else None
