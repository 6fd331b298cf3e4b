"""Plans in several steps: the last step is the answer, and who stops at an earlier one answers for that."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.coach.culprit import culprit
from mappa_env.coach.rubric.claims_math import formula_in, plan_in, python_of
from mappa_env.coach.rubric.plans.steps import steps_in
from rubric_play import SUM, Play, code, ran, summed

RIGHT = [
    "plan:\nproduct = 3*4\ntotal = product + 2",
    "plan:\nproduct = 3*4\nanswer = product + 2",  # reads like an answer
    "**Plan:**\n1. product = 3*4\n2. total = product + 2",
    "Plan:\n- 3*4 = 12\n- 12 + 2 = 14",
    "Plan:\n* first `3*4 = 12`\n* `12 + 2 = 14`",
    "plan: 3*4 = 12, 12 + 2 = 14",
    "plan: 3*4 = 12, then 12 + 2 = 14",
    "plan: product = 3*4; product + 2",
    "plan: let product = 3*4; total = product + 2",
    "plan: a*b + c where a=3, b=4, c=2",
    "plan: a = 3\nb = 4\na*b + 2",
    "plan:\n```python\nproduct = 3*4\nproduct + 2\n```",
    "We add.\nplan:\n\n1) 3*4\n2) 3*4 + 2\n\nThen print it.",
]
WRONG = [
    "plan:\nproduct = 3*4\ntotal = product - 2",
    "Plan:\n- 3*4 = 12\n- 12 - 2 = 10",
    "plan: 3*4 = 12, 12 - 2 = 10",
    "plan: product = 3*4; product - 2",
    "plan: a*b - c where a=3, b=4, c=2",
]
UNTOLD = [
    "plan:\n1. product = 3*4\n2. add two to it",
    "plan:\n1. 3*4 + 2 = 14\n2. check: 14 - 2 = 12",  # a check stands last
    "plan: product = 3*4; then two more",
]
ONE = [
    ("plan: 3*4 + 2", 14),
    ("plan: 3*4 + 2\n- 3*4 is the product\n- 2 is added", 14),
    ("plan: 3*4 + 2\n1. 3*4 = 12\n2. 12 + 2 = 14", 14),
    ("plan: 3*4 + 2 = 14", 14),
    ("plan: total = 3*4 + 2", 14),
    ("plan: sum([3, 4, 7])", 14),
    ("plan: max(14, 3, 2)", 14),
    ("plan: 1,400 // 100", 14),
    ("plan: 3*4 + 2, which is even", 14),
    ("plan: 3*4 + 2 -> 14", 14),
    ("plan: 3*4 + 2\nresult: 15", 14),
]


@pytest.mark.parametrize("plan", RIGHT)
def test_a_right_plan_in_steps_keeps_its_reward(plan: str) -> None:
    play, rows = summed(plan, "14")
    assert [row.score for row in rows] == [10] * 4
    assert culprit(play.actions) is None


@pytest.mark.parametrize("plan", RIGHT)
@pytest.mark.parametrize("value", ["12", "2", "99"])
def test_who_stops_at_another_step_answers_for_it(plan: str, value: str) -> None:
    play, rows = summed(plan, value)
    assert rows[0].score == 10
    assert (rows[1].score, rows[1].blame) == (1, "coder_0")
    assert culprit(play.actions) == "coder_0"


@pytest.mark.parametrize("plan", WRONG)
def test_who_carries_out_a_wrong_plan_in_steps_does_not_answer_for_it(plan: str) -> None:
    play, rows = summed(plan, "10")
    assert [row.score for row in rows] == [1, 8, 8, 8]
    assert culprit(play.actions) == "solver_0"


@pytest.mark.parametrize("plan", UNTOLD)
def test_a_plan_of_which_only_a_part_can_be_told_is_neither_right_nor_wrong(plan: str) -> None:
    _, rows = summed(plan, "14")
    assert rows[0].score is None
    assert [row.score for row in rows[1:]] == [10] * 3


@pytest.mark.parametrize(("plan", "value"), ONE)
def test_one_expression_is_not_a_plan_in_steps(plan: str, value: int) -> None:
    said = plan_in("solver_0", plan)
    assert said is not None
    assert (said.number, said.in_steps) == (value, False)


@pytest.mark.parametrize("plan", ["plan: 3*4 -> minus 2 -> times 7", "plan: 3*4 => add 2"])
def test_an_arrow_to_a_further_step_is_no_remark(plan: str) -> None:
    said = plan_in("solver_0", plan)
    assert said is not None
    assert said.number is None


def test_a_run_that_only_checks_leaves_the_value_before_it() -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4 + 2")
    first = play.act("coder_0", code("print(14)"), ran("14"))
    check = play.act("coder_0", code("assert 3*4 + 2 == 14; print('verified')"), ran("verified"))
    answer = play.act("verifier_0", r"\boxed{14}")
    assert [first.score, check.score, answer.score] == [10, 8, 10]


@pytest.mark.parametrize("before", ["12", "14"])
def test_who_prints_nothing_after_a_value_is_to_blame(before: str) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4 + 2")
    play.act("coder_0", code(f"print({before})"), ran(before))
    silent = play.act("coder_0", code("x = 12 + 2"), ran(""))
    assert silent.blame == "coder_0"
    assert (silent.score or 0) <= 2
    assert play.act("verifier_0", r"\boxed{none}").blame == "coder_0"
    assert culprit(play.actions) == "coder_0"


def test_a_check_of_a_wrong_value_earns_no_more_than_the_value() -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4 + 2")
    play.act("coder_0", code("print(13)"), ran("13"))
    check = play.act("coder_0", code("print('verified')"), ran("verified"))
    assert (check.score, check.blame) == (2, "coder_0")
    answer = play.act("verifier_0", r"\boxed{13}")
    assert answer.blame == "coder_0"


@settings(max_examples=200, deadline=None)
@given(st.text("plan:0123456789+-*/^%=().,; wherelt\n-#`$", max_size=300))
def test_any_text_is_read(text: str) -> None:
    formula_in(f"plan: {text}")


@pytest.mark.parametrize(
    "text",
    [
        "a=1; " * 4_000,
        "a=1\n" * 5_000,
        "(" * 20_000,
        "1, " * 6_000,
        "- 1*1\n" * 3_000,
        "plan: 1=1,\n" * 1_500,
    ],
)
def test_hostile_texts_take_no_time(text: str) -> None:
    start = time.process_time()
    steps_in(f"plan: {text}", python_of)
    assert time.process_time() - start < 1
