"""Plans in words: who computes their formula does not answer for it, and who computes another one does."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.coach.culprit import culprit
from mappa_env.coach.rubric.plans.prose import formula_at_end
from rubric_play import summed

WRONG = [
    "Multiply 3 by 4 and subtract 2, so compute 3*4 - 2.",
    "We need the product less two.\n\n$3 \\times 4 - 2 = 10$",
    "First 3*4 = 12, then 12 - 2 = 10 apples remain.",
    "Plan: take 3*4 and take away 2: 3*4-2.",
    "1. 3*4 = 12\n2. 12 - 2 = 10",
    "Step 1: the product, 3 \u00d7 4 = 12\nStep 2: the rest, 12 \u2212 2 = **10**",
    "Zuerst das Produkt, dann 2 weniger: 3*4 - 2",
    "Compute 3*4 - 2 and print the result.",
]
RIGHT = [
    "Compute 3*4 + 2.",
    "3*4 = 12, and 12 + 2 = 14 apples in all.",
    "1. $3 \\cdot 4 = 12$\n2. $12 + 2 = 14$",
]
MORE_THAN_THE_FORMULA = [
    "1. 3*4 = 12\n2. Add 2.",
    "3*4 = 12. Then add two.",
    "Add two to 3*4.",
    "Double 3*4.",
    "Compute 3*4, then double it.",
    "Compute 3*4. Then take the sum of it and the rest.",
    "In 2015 there were 3*4.",
    "Square what 3*4 gives.",
]
UNCHECKED = ["Multiply the first two and subtract the last.", "plan: as usual", "1. Multiply.\n2. Subtract."]


@pytest.mark.parametrize("plan", WRONG)
def test_who_computes_a_wrong_formula_in_words_carried_it_out(plan: str) -> None:
    play, rows = summed(plan, "10")
    assert [row.score for row in rows] == [1, 8, 8, 8]
    assert {row.blame for row in rows} == {"solver_0"}
    assert culprit(play.actions) == "solver_0"


@pytest.mark.parametrize("plan", WRONG)
def test_who_computes_something_else_answers_for_it(plan: str) -> None:
    _, rows = summed(plan, "13")
    assert (rows[1].score, rows[1].blame, rows[2].blame) == (1, "coder_0", "coder_0")


@pytest.mark.parametrize("plan", RIGHT)
def test_a_right_formula_in_words_keeps_its_reward_and_excuses_no_other_value(plan: str) -> None:
    assert [row.score for row in summed(plan, "14")[1]] == [10] * 4
    for value in ("12", "13"):
        play, rows = summed(plan, value)
        assert (rows[0].score, rows[1].score, rows[1].blame) == (10, 1, "coder_0")
        assert culprit(play.actions) == "coder_0"


@pytest.mark.parametrize("plan", MORE_THAN_THE_FORMULA)
def test_who_stops_at_a_formula_that_is_not_the_whole_plan_answers_for_it(plan: str) -> None:
    assert formula_at_end(plan) is None
    rows = summed(plan, "12")[1]
    assert (rows[1].score, rows[1].blame) == (1, "coder_0")


@pytest.mark.parametrize("plan", UNCHECKED)
def test_where_nothing_can_be_checked_who_copies_loses_less_than_who_computed(plan: str) -> None:
    rows = summed(plan, "10")[1]
    assert [row.score for row in rows[1:]] == [1, 2, 8]


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=300), st.text("0123456789+-*/^%=(). dozentwo\n", max_size=300)))
def test_any_text_is_read(text: str) -> None:
    formula_at_end(text)


@pytest.mark.parametrize(
    "text", ["-" * 20_000, "(" * 20_000 + "1", "1+" * 10_000, "1" * 20_000, "1 = " * 5_000]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    start = time.process_time()
    formula_at_end(text)
    assert time.process_time() - start < 1
