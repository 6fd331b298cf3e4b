"""The flow of actions keeps Little's law, never exceeds a limit, and never gains from less."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_rl.planning.flow import flow
from mappa_rl.planning.stage import Stage

SECONDS = st.floats(0.001, 100)
STAGES = st.builds(
    Stage,
    name=st.just("a"),
    seconds=SECONDS,
    capacity=st.one_of(st.just(inf), st.floats(0.01, 1000)),
    growth=st.one_of(st.just(0.0), st.floats(1e-5, 1.0)),
    visits=st.floats(0.1, 1.0),
)
SEVERAL = st.lists(STAGES, min_size=1, max_size=4).map(
    lambda stages: [replace(stage, name=str(number)) for number, stage in enumerate(stages)]
)


@given(SEVERAL, st.integers(1, 5000))
def test_episodes_under_way_are_the_rate_times_the_seconds_of_an_action(
    stages: list[Stage], in_flight: int
) -> None:
    found = flow(stages, in_flight)
    assert isclose(found.rate * found.action_s, in_flight, rel_tol=1e-3)


@given(SEVERAL, st.integers(1, 5000))
def test_the_rate_exceeds_no_limit(stages: list[Stage], in_flight: int) -> None:
    rate = flow(stages, in_flight).rate
    alone = sum(stage.visits * stage.seconds for stage in stages)
    assert rate <= in_flight / alone * (1 + 1e-9)
    others = 1 - 1 / in_flight
    assert all(others * rate <= stage.most * (1 + 1e-9) for stage in stages)


@given(SEVERAL, st.integers(1, 5000))
def test_the_rate_is_the_one_that_halving_finds(stages: list[Stage], in_flight: int) -> None:
    others = 1 - 1 / in_flight
    low, high = 0.0, in_flight / sum(stage.passing(0.0) for stage in stages)
    high = min(high, *(stage.most / others for stage in stages)) if others else high
    for _ in range(200):
        middle = (low + high) / 2
        passing = sum(stage.passing(others * middle) for stage in stages)
        low, high = (middle, high) if middle * passing < in_flight else (low, middle)
    assert isclose(flow(stages, in_flight).rate, low, rel_tol=1e-12)


@given(SEVERAL, st.integers(1, 5000), st.floats(1, 64), st.data())
def test_more_places_and_more_episodes_never_slow_the_flow(
    stages: list[Stage], in_flight: int, factor: float, data: st.DataObject
) -> None:
    before = flow(stages, in_flight).rate
    at = data.draw(st.integers(0, len(stages) - 1))
    more = [stage.with_more(factor) if i == at else stage for i, stage in enumerate(stages)]
    assert flow(more, in_flight).rate >= before * (1 - 1e-6)


def test_one_episode_waits_for_nobody() -> None:
    found = flow([Stage("a", 2.0, capacity=1.0), Stage("b", 3.0)], 1)
    assert found.rate == pytest.approx(1 / 5)
    assert found.queue == {"a": 0.0, "b": 0.0}


def test_many_episodes_reach_the_capacity_of_the_slowest_stage() -> None:
    found = flow([Stage("sandbox", 1.0, capacity=8.0), Stage("generation", 2.0, growth=0.01)], 10_000)
    assert found.rate == pytest.approx(8.0, rel=0.01)
    assert found.queue["sandbox"] > 100 * found.service["generation"]


def test_a_verdict_in_the_background_limits_the_rate_but_is_waited_for_once_an_episode() -> None:
    stages = [Stage("generation", 1.0), Stage("coach", 4.0, capacity=2.0, visits=1 / 4)]
    assert flow(stages, 1).action_s == pytest.approx(2.0)
    assert flow(stages, 1000).rate == pytest.approx(2.0, rel=0.01)
