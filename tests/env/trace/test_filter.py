"""Filters choose episodes by themselves and by one action that meets every condition."""

from __future__ import annotations

import dataclasses

import pytest

from mappa_env.errors import OptionError
from mappa_env.trace import ActionSummary, Summary
from mappa_env.trace.filter import Filter

FIRST = ActionSummary(0, "coder_0", 0, 0, "ok", 3.0, 3.0, True, "timeout", ("math", "coder", 0), 1.5, -0.5)
SECOND = ActionSummary(1, "judge_0", 0, 1, "abstain", None, 0.0, False, "", ("math", "judge", 0))
EPISODE = Summary(
    "f", "k-1", "E-v0", "train-7", "word", "math", 5, False, 0.25, "ok", {"phase": "train", "step": 12},
    (FIRST, SECOND),
)  # fmt: skip


@pytest.mark.parametrize(
    ("terms", "steps"),
    [
        ("", (0, 1)),
        ("agent=coder_0 score<4 status=timeout", (0,)),
        ("agent=judge_0 score<4", ()),
        ("score=none", (1,)),
        ("score!=none", (0,)),
        ("reward=none valid=false", (1,)),
        ("role=judge tool=none", (1,)),
        ("advantage<0 return>=1.5", (0,)),
        ("phase=train step>11 step<=12", (0, 1)),
        ("step=13", ()),
        ("success=false outcome=0.25", (0, 1)),
        ("task~TRAIN", (0, 1)),
        ("status!=ok", (1,)),
        ("status=ok", (0,)),
        ("seed=5 seed<=5 seed!=6", (0, 1)),
    ],
)
def test_actions_that_match(terms: str, steps: tuple[int, ...]) -> None:
    assert Filter([terms]).actions(EPISODE) == steps
    assert Filter(terms.split())(EPISODE) == bool(steps)


def test_a_text_with_spaces_is_one_value() -> None:
    episode = dataclasses.replace(EPISODE, topic="number theory")
    for terms in (["topic=number theory"], ['topic="number theory" agent=coder_0'], ['topic~"r t"']):
        assert Filter(terms)(episode)
        assert not Filter(terms)(EPISODE)


def test_a_seed_is_compared_to_the_last_digit() -> None:
    episode = dataclasses.replace(EPISODE, seed=4720721261117928063)
    assert Filter(["seed=4720721261117928063"])(episode)
    assert not Filter(["seed=4720721261117928064"])(episode)
    assert not Filter(["seed>4720721261117928063"])(episode)


def test_a_score_without_a_valid_verdict_is_none() -> None:
    action = FIRST._replace(verdict="suspect")
    episode = dataclasses.replace(EPISODE, actions=(action,))
    assert Filter(["score=none status=suspect"])(episode)
    assert not Filter(["score<4"])(episode)


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ("agnet=coder_0", "unknown field.*Did you mean 'agent'"),
        ("score", "is not a condition: write <field>"),
        ("task=", "has no value"),
        ('topic="two words', "has no value"),
        ("topic=two words score<4", "'words' is not a condition"),
        ("score<low", "'low', which is not a number"),
    ],
)
def test_a_wrong_filter_says_what_to_write(term: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        Filter([term])
