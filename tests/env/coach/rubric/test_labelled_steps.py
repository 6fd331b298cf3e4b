"""Plans whose steps have words before or after their expressions, arrows between them, or TeX."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.coach.culprit import culprit
from mappa_env.coach.rubric.claims_math import formula_in, plan_in, report_in
from rubric_play import summed

STEPS = [
    "plan:\n1. Product: 3 * 4 = 12\n2. With the rest: 12 + {} = {}",
    "plan:\n1. **Product:** 3 * 4 = 12\n2. **All of it:** 12 + {} = {}",
    "**Plan:**\n\n1. **Boxes**: 3 * 4\n\n2. **All of it**: 3 * 4 + {}",
    "plan:\n- Product: 3 * 4 = 12\n- Total stamps: 12 + {} = {}",
    "plan:\n1. Compute 3 * 4 = 12\n2. Compute 12 + {} = {}",
    "plan:\n1. Product: $3 \\times 4 = 12$\n2. Rest: $12 + {} = {}$",
    "plan:\n1. 3 * 4 = 12 stamps in total\n2. 12 + {} = {} stamps per friend",
    "**Plan:**\n\n*   **Step 1:** Boxes: $3 \\times 4 = 12$\n*   **Step 2:** Stamps: $12 + {} = {}$",
    "plan: 3*4 = 12 \u2192 12 + {} = {}",
    "plan: 3*4 = 12 => 12 + {} = {}",
    "plan: 3*4 -> 12 + {}",
    "plan: 3*4 = 12. Then 12 + {} = {}.",
    "plan: Let N = 3*4. Then answer = N + {}.",
    "plan:\n```python\n# the product\nproduct = 3*4\n# all\nresult = product + {}\nprint(result)\n```",
]
ONE = [
    "plan: \\( 28 \\div 2 \\)",
    "plan: $\\frac{{3 \\times 4 + 16}}{{2}}$",
    "plan: $12 + \\sqrt{{4}}$",
    "plan: 3 x 4 + 2",
    "plan: 28/2 stamps per friend",
    "plan: 28/2 This gives the number of stamps per friend.",
    "plan: $28 \\text{{ boxes}} / 2$",
    "plan: Compute 28 / 2",
]
UNTOLD = [
    "plan:\n1. Base: 3*4\n2. Add: 2*1",
    "plan:\n1. Total: 3*4 = 12\n2. Double the rest\n3. Part: 1*1 = 1",
]


@pytest.mark.parametrize("plan", STEPS)
def test_right_steps_earn_all_and_who_errs_after_them_answers(plan: str) -> None:
    right = plan.format(2, 14)
    assert [row.score for row in summed(right, "14")[1]] == [10] * 4
    for value in ("12", "99"):
        play, rows = summed(right, value)
        assert (rows[0].score, rows[1].score, rows[1].blame) == (10, 1, "coder_0")
        assert culprit(play.actions) == "coder_0"


@pytest.mark.parametrize("plan", STEPS)
def test_who_carries_out_wrong_steps_is_innocent(plan: str) -> None:
    play, rows = summed(plan.format(7, 19), "19")
    assert [row.score for row in rows] == [1, 8, 8, 8]
    assert culprit(play.actions) == "solver_0"


@pytest.mark.parametrize("plan", ONE)
def test_one_expression_is_read_as_people_write_it(plan: str) -> None:
    said = plan_in("solver_0", plan.format())
    assert said is not None
    assert said.number == 14


@pytest.mark.parametrize("plan", UNTOLD)
def test_steps_of_which_one_is_not_understood_are_never_wrong(plan: str) -> None:
    assert summed(plan, "14")[1][0].score is None


@pytest.mark.parametrize(
    "plan", ["plan: 3*4 doubled", "plan: 3*4 stamps per half", "plan: 3*4 This is then doubled"]
)
def test_words_that_change_a_value_are_no_unit(plan: str) -> None:
    said = plan_in("solver_0", plan)
    assert said is not None
    assert said.number is None


@settings(max_examples=200, deadline=None)
@given(st.text("plan:0123456789+-*/^%=(). \\frac{}sqrtx\n->#`$", max_size=300))
def test_any_text_is_read(text: str) -> None:
    formula_in(f"plan: {text}")
    plan_in("solver_0", f"plan: {text}")


@pytest.mark.parametrize(
    "text", ["\\frac{" * 4_000, "a: " * 6_000, "-> 1*1 " * 2_500, "\\sqrt{1}^" * 2_000, "1. a: 1*1\n" * 2_000]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    start = time.process_time()
    plan_in("solver_0", f"plan: {text}")
    formula_in(f"plan:\n{text}")
    assert time.process_time() - start < 2


def test_a_value_that_the_last_step_does_not_compute_earns_nothing() -> None:
    assert summed("plan:\n1. Boxes: 3*4 = 12\n2. Stamps: 3*4 - 2 = 14", "14")[1][0].score is None


@pytest.mark.parametrize("last", ["3. Split among the friends", "3. Divide by 7"])
def test_who_carries_out_steps_that_are_understood_in_part_is_innocent(last: str) -> None:
    play, rows = summed(f"plan:\n1. Total: 3 * 4 = 12\n2. Remaining: 12 + 9 = 21\n{last}", "3")
    assert rows[0].status == "abstain"
    assert min(row.score or 0.0 for row in rows[1:]) >= 6
    assert culprit(play.actions) is None


def test_who_leaves_a_wrong_plan_before_its_check_is_innocent() -> None:
    play, rows = summed("plan:\n1. Total: 3 * 4 = 12\n2. Each: 12 + 9 = 21\n3. Verify: 21 - 9 = 12", "21")
    assert [row.score for row in rows] == [1, 8, 8, 8]
    assert culprit(play.actions) == "solver_0"


@pytest.mark.parametrize("label", ["Remaining", "The sum", "Half of it", "Three more"])
def test_a_label_that_only_names_what_is_computed_hides_no_wrong_plan(label: str) -> None:
    play, _ = summed(f"plan:\n1. Total: 3*4\n2. {label}: 3*4 + 7", "19")
    assert culprit(play.actions) == "solver_0"


@pytest.mark.parametrize(
    "report", ["result: 14 - verified", "result: 14/friend", "Answer: 14 - correct", "result: 14"]
)
def test_a_remark_behind_a_number_leaves_its_value(report: str) -> None:
    said = report_in("coder_0", report)
    assert said is not None
    assert said.number == 14


@pytest.mark.parametrize("report", ["result = left // 7", "answer: (total - 33) // 7"])
def test_an_expression_of_names_has_no_value(report: str) -> None:
    said = report_in("coder_0", report)
    assert said is None or said.number is None


def test_a_constant_in_a_fence_is_an_answer() -> None:
    said = report_in("coder_0", "```\nanswer = 14\n```")
    assert said is not None
    assert said.number == 14
