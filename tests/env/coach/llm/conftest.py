"""Fake servers of both protocols, and coaches that ask them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fake_llm as fakes
from fake_llm import FakeServer
from llm_coach import KEY, QUICK, Make, address, name_of
from mappa_env.cards import Card, read_card
from mappa_env.coach import make_coach
from mappa_env.coach.llm.coach import LLMCoach
from paths import REGISTRY


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(scope="module")
def card() -> Card:
    return read_card(REGISTRY / "mathchat")


@pytest.fixture(params=["gemini", "openai"])
def fake(request: pytest.FixtureRequest) -> Iterator[FakeServer]:
    with fakes.serving(request.param) as server:
        yield server


@pytest.fixture
def make(fake: FakeServer, card: Card) -> Iterator[Make]:
    made: list[LLMCoach] = []

    def make(**options: Any) -> LLMCoach:
        spec = {"name": name_of(fake), **address(fake), **QUICK, **options}
        coach = make_coach(spec, card)
        assert isinstance(coach, LLMCoach)
        made.append(coach)
        return coach

    yield make
    for coach in made:
        coach.close()
