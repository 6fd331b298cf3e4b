"""A step is the sum of its phases on policy, their maximum with staleness; the bottleneck is what binds."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_rl.planning.bottleneck import first_bottleneck
from mappa_rl.planning.setup import GENERATION, LEARNING, SYNC, Setup
from mappa_rl.planning.stage import Stage
from mappa_rl.planning.step import expected_maximum, predict

PLAIN = Setup(
    (Stage(GENERATION, 2.0, growth=0.001, spread=0.5), Stage("sandbox", 1.0, capacity=64.0)),
    episodes=64,
    actions=4.0,
    learn_s=10.0,
    sync_s=1.0,
    staleness=0,
    lockstep_groups=0,
)
SETUPS = st.builds(
    Setup,
    stages=st.builds(
        lambda generation, growth, code, slots, spread: (
            Stage(GENERATION, generation, growth=growth, spread=spread),
            Stage("sandbox", code, capacity=slots / code, spread=spread),
        ),
        st.floats(0.01, 100),
        st.floats(0, 0.5),
        st.floats(0.01, 10),
        st.integers(1, 500),
        st.floats(0, 1),
    ),
    episodes=st.integers(1, 512),
    actions=st.floats(1, 20),
    learn_s=st.floats(0, 1000),
    sync_s=st.floats(0, 10),
    staleness=st.integers(0, 3),
    lockstep_groups=st.just(0),
)


@given(SETUPS)
def test_parts_add_up_and_no_stage_serves_more_than_it_can(setup: Setup) -> None:
    step = predict(setup)
    assert sum(step.parts.values()) == pytest.approx(step.seconds)
    assert set(step.parts) == {GENERATION, "sandbox", LEARNING, SYNC}
    # One episode does not meet itself, so that a single one may take what it takes alone.
    slack = 1 / (1 - 1 / setup.episodes) if setup.episodes > 1 else inf
    assert all(busy <= slack * (1 + 1e-6) for busy in step.busy.values())


@given(SETUPS, st.sampled_from([GENERATION, "sandbox", LEARNING, SYNC]), st.floats(1, 100))
def test_more_of_anything_is_never_predicted_to_be_slower(setup: Setup, name: str, factor: float) -> None:
    assert predict(setup.with_more(name, factor)).seconds <= predict(setup).seconds * (1 + 1e-6)


@given(SETUPS)
def test_a_step_lasts_at_least_as_long_as_its_learner(setup: Setup) -> None:
    assert predict(setup).seconds >= (setup.learn_s + setup.sync_s) * (1 - 1e-9)


def test_on_policy_phases_add_up_and_with_staleness_they_overlap() -> None:
    on_policy = predict(PLAIN)
    overlapped = predict(replace(PLAIN, staleness=1))
    assert on_policy.parts[LEARNING] + on_policy.parts[SYNC] == 11.0
    assert 11.0 <= overlapped.seconds < 0.6 * on_policy.seconds  # two steps' episodes are under way
    busy = predict(replace(PLAIN, staleness=1, learn_s=100.0))
    assert busy.seconds == pytest.approx(101.0)
    assert busy.bottleneck == LEARNING


def test_lockstep_groups_wait_for_their_slowest_episode() -> None:
    grouped = predict(replace(PLAIN, lockstep_groups=2))
    assert grouped.seconds > predict(PLAIN).seconds
    assert sum(grouped.parts.values()) == pytest.approx(grouped.seconds)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        (LEARNING, replace(PLAIN, learn_s=60.0)),
        (SYNC, replace(PLAIN, sync_s=60.0)),
        ("sandbox", replace(PLAIN, stages=(PLAIN.stages[0], Stage("sandbox", 1.0, capacity=2.0)))),
        (GENERATION, replace(PLAIN, stages=(Stage(GENERATION, 2.0, growth=0.5), PLAIN.stages[1]))),
    ],
)
def test_the_bottleneck_is_what_binds_and_its_factor_removes_it(name: str, changed: Setup) -> None:
    found = first_bottleneck(changed)
    assert found.names == (name,)
    assert found.factor is not None
    more = predict(changed.with_more(name, found.factor * 1.01))
    assert more.bottleneck == found.then != name
    assert predict(changed.with_more(name, found.factor * 0.98)).bottleneck == name
    assert found.speedup > 1


def test_a_bottleneck_of_latency_is_not_removed_by_numbers() -> None:
    slow = replace(PLAIN, stages=(Stage(GENERATION, 100.0), PLAIN.stages[1]))
    found = first_bottleneck(slow)
    assert (found.names, found.factor, found.then) == ((GENERATION,), None, "")


def test_stages_that_take_nearly_the_same_tie_and_more_of_all_of_them_helps() -> None:
    played = sum(predict(replace(PLAIN, sync_s=0.0, learn_s=0.0)).parts.values())
    tied = replace(PLAIN, learn_s=10 * played, sync_s=9.8 * played)
    found = first_bottleneck(tied)
    assert found.names == (LEARNING, SYNC)
    assert found.factor is not None
    more = tied.with_more(LEARNING, found.factor * 1.01).with_more(SYNC, found.factor * 1.01)
    assert predict(more).bottleneck == found.then not in found.names
    assert predict(replace(tied, sync_s=9 * played)).bottlenecks == (LEARNING,)


def test_the_expected_maximum_of_normal_draws() -> None:
    assert expected_maximum(1) == 0.0
    assert expected_maximum(2) == pytest.approx(0.564, abs=0.03)
    assert expected_maximum(100) == pytest.approx(2.508, abs=0.01)
    assert 10 < expected_maximum(1e24) < 11
