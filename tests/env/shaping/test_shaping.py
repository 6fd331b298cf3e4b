"""Shapings: the reward of every action, and whether it is immediate."""

from __future__ import annotations

from typing import Any

import pytest

from mappa_env.errors import OptionError
from mappa_env.shaping import SHAPINGS, make_shaping
from mappa_env.types import Outcome, Task, Trajectory, Verdict
from recorded import recorded

TASK = Task("t", "p", "exact_match")


def verdict(score: float | None, status: Any = "ok") -> Verdict:
    return Verdict(status, score)


def outcome(score: float, status: str = "ok") -> Outcome:
    return Outcome(score, score > 0.5, status, "")


def trajectory(verdicts: list[Verdict], end: Outcome | None) -> Trajectory:
    actions = tuple(recorded(step=i, turn=i, verdict=v) for i, v in enumerate(verdicts))
    return Trajectory("id", TASK, 0, actions, end)


def test_only_process_rewards_are_known_at_once() -> None:
    assert [name for name in SHAPINGS.builtin if make_shaping(name).immediate] == ["process"]


def test_process_rewards_are_the_scores() -> None:
    shaping = make_shaping("process")
    assert shaping.rewards(trajectory([verdict(7.5)], None)) == [(7.5, True)]
    assert shaping.rewards(trajectory([verdict(7.5)], outcome(0.0))) == [(7.5, True)]
    ended = trajectory([verdict(2.0), verdict(10.0)], outcome(1.0))
    assert shaping.rewards(ended) == [(2.0, True), (10.0, True)]


@pytest.mark.parametrize(
    "missing", [verdict(None, "abstain"), verdict(None, "error"), verdict(9.0, "suspect"), verdict(None)]
)
@pytest.mark.parametrize("name", ["process", "mixed"])
def test_a_missing_score_is_never_a_number(name: str, missing: Verdict) -> None:
    shaping = make_shaping(name)
    assert shaping.rewards(trajectory([missing], None)) == [(0.0, False)]
    assert shaping.rewards(trajectory([missing, verdict(4.0)], outcome(1.0)))[0] == (0.0, False)


def test_outcome_rewards_are_the_same_for_every_action() -> None:
    shaping = make_shaping("outcome")
    assert (
        shaping.rewards(trajectory([verdict(1.0), verdict(None, "error")], outcome(0.7))) == [(7.0, True)] * 2
    )


@pytest.mark.parametrize("name", ["outcome", "mixed"])
@pytest.mark.parametrize("end", [None, outcome(0.0, "unavailable")])
def test_no_reward_without_an_outcome(name: str, end: Outcome | None) -> None:
    assert make_shaping(name).rewards(trajectory([verdict(5.0)], end)) == [(0.0, False)]


def test_mixed_weights_are_relative() -> None:
    ended = trajectory([verdict(4.0), verdict(10.0)], outcome(1.0))
    assert make_shaping("mixed").rewards(ended) == [(7.0, True), (10.0, True)]
    three_to_one = make_shaping({"name": "mixed", "process_weight": 3, "outcome_weight": 1})
    assert three_to_one.rewards(ended) == [(5.5, True), (10.0, True)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("proces", "Did you mean 'process'"),
        ({"weight": 1}, "needs a name; choose from process, outcome"),
        (
            {"name": "mixed", "procss_weight": 1},
            "its options are process_weight, outcome_weight. Did you mean",
        ),
        ({"name": "process", "weight": 1}, "it takes no options"),
        ({"name": "mixed", "process_weight": -1}, ">= 0, found -1"),
        ({"name": "mixed", "process_weight": float("nan")}, "found nan"),
        ({"name": "mixed", "process_weight": "half"}, "found 'half'"),
        ({"name": "mixed", "process_weight": 0, "outcome_weight": 0}, "must be positive"),
    ],
)
def test_wrong_specs_are_refused(spec: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_shaping(spec)
