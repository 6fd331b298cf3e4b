"""What the tests of the language-model coach share: its settings, and evidence to ask about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fake_llm import FakeServer
from mappa_env.cards import Card
from mappa_env.coach.llm.coach import LLMCoach
from mappa_env.types import Evidence, Task, Verdict

KEY = "secret-key-of-the-tests"
QUICK = {"base_s": 0.01, "deadline_s": 30.0, "timeout_s": 10.0}
PRICE = {"input": 1.0, "output": 10.0}
Make = Callable[..., LLMCoach]


def name_of(fake: FakeServer) -> str:
    return "gemini:gemini-3.8-flash" if fake.kind == "gemini" else f"openai:some-model@{fake.url}"


def address(fake: FakeServer) -> dict[str, str]:
    return {"base_url": fake.url} if fake.kind == "gemini" else {}


def evidence(card: Card, action: str = "plan: 2 + 2", **changes: Any) -> Evidence:
    task = Task("t/1", "What is two plus two?", "exact_match", truth={"answer": "4"})
    fields: dict[str, Any] = {
        "task": task,
        "agent": card.team["solver_0"],
        "turn": 0,
        "step": 0,
        "prompt": "Solve it.",
        "action": action,
        "code": None,
        "tool": None,
        "last_turn": True,
    }
    return Evidence(**{**fields, **changes})


def whole(verdict: Verdict) -> tuple[float, Any]:
    assert verdict.status == "ok", verdict
    assert verdict.score is not None
    assert verdict.asked is not None
    return verdict.score, verdict.asked
