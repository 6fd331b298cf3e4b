"""What a language-model coach asks, against fake servers of both protocols."""

from __future__ import annotations

import json

import pytest

from fake_llm import FakeServer
from llm_coach import KEY, Make, evidence, whole
from mappa_env.cards import Card
from mappa_env.types import Outcome


def test_an_answer_becomes_a_verdict(fake: FakeServer, make: Make, card: Card) -> None:
    fake.grade = lambda call, name: 4 if name == "correctness" else 1
    score, asked = whole(make().judge(evidence(card)))
    assert score == pytest.approx(10 * (7 * 4 + 3 * 1) / 40)
    assert (asked.calls, asked.prompt, asked.cached, asked.output, asked.thoughts) == (1, 1000, 400, 100, 50)
    assert asked.model_version == fake.model_version
    assert len(asked.response_ids) == 1


def test_the_static_part_comes_first_and_the_action_last(fake: FakeServer, make: Make, card: Card) -> None:
    coach = make()
    for action in ("plan: 2 + 2", "plan: 2 * 2"):
        coach.judge(evidence(card, action))
    first, second = (call.text for call in fake.calls)
    assert first != second
    common = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert "What is two plus two?" in first[:common]
    assert '"agent": "solver_0"' in first[:common]
    assert first.index("plan: 2 + 2") > common


def test_the_key_travels_in_a_header_only(fake: FakeServer, make: Make, card: Card) -> None:
    make().judge(evidence(card))
    (call,) = fake.calls
    held = [name for name, value in call.headers.items() if KEY in value]
    assert held == ["x-goog-api-key" if fake.kind == "gemini" else "authorization"]
    assert KEY not in call.path + json.dumps(call.body)


@pytest.mark.parametrize("labels", [True, False])
def test_truth_is_shown_only_with_labels(fake: FakeServer, make: Make, card: Card, labels: bool) -> None:
    outcome = Outcome(1.0, True, "ok", "the golden reason")
    make(labels=labels).judge(evidence(card, truth={"answer": "4"}, provisional_outcome=outcome))
    make(labels=True).judge(evidence(card, truth=None, provisional_outcome=outcome))
    assert ["the golden reason" in call.text for call in fake.calls] == [labels, False]
