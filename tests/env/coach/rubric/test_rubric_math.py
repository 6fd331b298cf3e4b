"""The rubric on mathematics: plans, code, reports and answers."""

from __future__ import annotations

import dataclasses
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.coach.rubric.claims_math import (
    Statement,
    has_steps,
    is_right,
    output_of,
    plan_in,
    python_of,
    same,
    untold,
)
from mappa_env.coach.rubric.plans.value import plan_value
from mappa_env.grading.reading import number_of
from mappa_env.types import ToolResult
from rubric_play import SUM, Play, code, ran


@pytest.mark.parametrize(
    ("text", "score", "blame"),
    [
        ("plan: 3*4+2", 10, None),
        ("**plan:** `3*4 + 2`", 10, None),
        ("plan: 3+4*2", 1, "solver_0"),
        ("plan: 3*4+2\nplan: 3*4", 1, "solver_0"),  # the last plan is what the coder takes
        ("plan: 3*4+2\nPlan: the coder computes it", 10, None),  # a heading is not a plan
        ("plan: think hard", 0.5, "solver_0"),
        (r"So the answer is \boxed{14}.", 10, None),
        (r"So the answer is \boxed{15}.", 1, "solver_0"),
        ("Steps as agreed.\n`plan: 3*4 + 2`.", 10, None),
        ("plan: 3*4 + 2 = 14", 10, None),
        ("plan: total = 3*4 + 2  # exact", 10, None),
        ("plan: 2.5*4 + math.factorial(3) - 2", 10, None),
        ("plan: think hard\nThe answer is 14.", 10, None),
        ("plan: float(3*4 + 2)", 10, None),
        ("plan: int(29 / 2)", 10, None),
        ("plan: [3*4, 3*4+2][1]", 10, None),
        ("plan: divmod(29, 2)[0]", 10, None),
        ("plan: sorted((14, 3))[-1]", 10, None),
        ("plan: [3, 14][0]", 1, "solver_0"),
        ("plan: 1_40 // 10", 10, None),
        ("plan: sum([14, 3][:1])", None, None),
        ("plan: int(29 / 2) = 14", 10, None),
        ("plan: round(14.0, 2)", 10, None),
        ("plan: sum([3*4, 2])", 10, None),
        ("plan: max([14, 3]) + min(0, 1) + abs(-0)", 10, None),
        ("plan: sum(3 for _ in range(4)) + 2", 10, None),
        ("plan: sum(3 for _ in range(5)) + 2", 1, "solver_0"),
        ("plan: int(29 / 3)", 1, "solver_0"),
        ("plan: 3*4+2 (three times four, plus 2)", 10, None),
        ("plan: 3*4 + 2 apples", 10, None),
        ("plan: `3*4 + 2` square meters", 0.5, "solver_0"),  # a word that may compute
        ("plan: 3*4+2 → 14", 10, None),
        ("plan: 3*4+2 => 14", 10, None),
        ("plan: 3*4+2, as the text says", 10, None),
        ("plan: total = sum([3*4, 2]) (all together)", 10, None),
        ("plan: 3*4 (the product)", 1, "solver_0"),
        ("plan: 3*4 apples -> 14", 1, "solver_0"),
        ("plan: 3*4 plus two", 0.5, "solver_0"),
        ("plan: 3*4, plus two", 0.5, "solver_0"),
        ("plan: 7 dozen", 0.5, "solver_0"),
        ("plan: 14 and more (I guess)", 0.5, "solver_0"),
        ("plan:\n3*4+2", 10, None),
        ("**Plan:**\n\n```python\nint(14.5)\n```", 10, None),
        ("plan:\n3*4", 1, "solver_0"),
        ("plan:\nThink hard.", 0.5, None),
        ("plan: len(str(2**10))", None, None),  # an expression that the host cannot evaluate
        ("plan: np.prod([7, 2])", None, None),
        ("plan: round(14.0, ndigits=1)", None, None),
        ("plan: sum(1 for x in range(10**9))", None, None),
        ("plan: 14 + 0 * 9**9**9", 0.5, "solver_0"),
        ("1. Multiply 3 by 4.\n2. Add 2.\nanswer: 15", 1, "solver_0"),
        ("1. The answer is the product, plus 2.", 0.5, None),
        ("First multiply the two numbers, then add two to the product.", 0.5, None),
        ("No idea.", 0.5, None),
        ("1.5 apples\n2.5 pears", 0.5, None),
        ("<think>plan: 3*4+2</think>", 0, "solver_0"),
        ("", 0, "solver_0"),
    ],
)
def test_solver(text: str, score: float, blame: str | None) -> None:
    verdict = Play("mathchat", SUM).act("solver_0", text)
    status = "abstain" if score is None else "ok"
    assert (verdict.status, verdict.score, verdict.blame) == (status, score, blame)


HOSTILE = [
    "9**9**9",
    "factorial(10**9)",
    "round(1, -9**9)",
    "sum(x for x in range(10**5) for y in range(10**5))",
    "prod(range(1, 10000))",
    "pow(3**8000, 3**8000, 7**4000)",
    "sum(range(10**30))",
    "(1).__class__.__base__",
    "open('x')",
    "[9] * 10**9",
    "'a' * 10**9",
    "max(range(10**18))",
    "comb(10**6, 5*10**5)",
    "range(10**40)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_plans_have_no_value_and_take_no_time(text: str) -> None:
    start = time.process_time()
    assert plan_value(text).number is None
    assert time.process_time() - start < 1


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(st.text(max_size=200), st.text("0123456789+-*/%(), []xforinrangesumintld.'\"", max_size=200))
)
def test_any_plan_is_evaluated_without_harm(text: str) -> None:
    assert isinstance(plan_value(python_of(text)).number, (int, Fraction, type(None)))


METHODS = [
    "1. Multiply 3 by 4.\n2. Add 2.",
    "Plan: as follows\n\n**Step 1:** multiply.\n**Step 2:** add 2.",
]


@pytest.mark.parametrize("text", METHODS)
@pytest.mark.parametrize("truth", [True, False])
def test_a_method_that_cannot_be_checked_costs_only_where_one_expression_is_known(
    text: str, truth: bool
) -> None:
    verdict = Play("mathchat", SUM, truth=truth).act("solver_0", text)
    assert (verdict.status, verdict.score) == ("abstain", None)
    known = dataclasses.replace(SUM, meta={"expr": "3*4+2"})
    assert Play("mathchat", known, truth=truth).act("solver_0", text).score == 0.5


def test_a_box_of_the_solver_costs_nothing_without_the_truth() -> None:
    play = Play("mathchat", SUM, truth=False)
    assert play.act("solver_0", r"So it is \boxed{14}.").score is None
    assert play.act("coder_0", code("print(14)"), ran("14")).score == 10


def test_a_wrong_answer_that_the_solver_states_is_its_own() -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "1. Multiply.\n2. Forget the rest.\nThe answer is 12.")
    verdict = play.act("coder_0", code("print(3*4)"), ran("12"))
    assert (verdict.score, verdict.blame) == (8, "solver_0")


@pytest.mark.parametrize(
    ("plan", "tool", "score", "blame"),
    [
        ("3*4+2", ran("14\n"), 10, None),
        ("3*4+2", ran("steps\nx = 14.0\n"), 10, None),
        ("3*4+2", ran("14\nDone.\n"), 10, None),
        ("3*4+2", ran("answer: 14\nchecked 20 cases\n"), 10, None),
        ("3*4+2", ran("14 (out of 20)\n"), 10, None),
        ("3*4+2", ran("Total 14 after 7 steps\n"), 10, None),
        ("3*4+2", ran("14 apples in 3 baskets\nchecked in 0.01 s\n"), 10, None),
        ("think hard", ran("total: 14\nelapsed: 0.5 s\n"), 10, None),
        ("3*4+2", ran("Total 13 after 7 steps\n"), 1, "coder_0"),
        ("3*4", ran("Total 12 after 7 steps\n"), 8, "solver_0"),
        ("3*4+2", ran("12 13 14 15\n"), 1, "coder_0"),
        ("3*4+2", ran("maybe 13\nmaybe 14\nmaybe 15\n"), 1, "coder_0"),
        ("3*4+2", ran("14\n15\n"), 1, "coder_0"),
        ("3*4", ran("12\n"), 8, "solver_0"),
        ("3*4", ran("14\n"), 10, None),
        ("3*4", ran("13\n"), 1, "coder_0"),
        ("3*4+2", ran("12\n"), 1, "coder_0"),
        ("3*4+2", ran(""), 2, "coder_0"),
        ("3*4+2", ran("", "error", "Traceback\nNameError: name 'prnt' is not defined"), 2, "coder_0"),
        ("3*4+2", ran("", "error", "SyntaxError: invalid syntax"), 2, "coder_0"),
        ("3*4+2", ran("14\n", "timeout"), 2, "coder_0"),
        ("1+frob(2)", ran("", "error", "NameError: name 'frob' is not defined"), 6, "solver_0"),
        ("1+frob(2)", ran("", "error", "Traceback\nZeroDivisionError: division by zero"), 2, "coder_0"),
        ("1//0", ran("", "error", "ZeroDivisionError: integer division or modulo by zero"), 6, "solver_0"),
        ("9**9**9", ran("", "timeout"), 6, "solver_0"),
        ("9**9**9", ran("", "error", "Traceback\nZeroDivisionError: division by zero"), 2, "coder_0"),
        ("think hard", ran("", "error", "SyntaxError: invalid syntax"), 2, "coder_0"),
    ],
)
def test_coder_code(plan: str, tool: ToolResult, score: float, blame: str | None) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", f"plan: {plan}")
    verdict = play.act("coder_0", code(f"print({plan})"), tool)
    assert (verdict.score, verdict.blame) == (score, blame)


@pytest.mark.parametrize(
    ("output", "text", "score", "blame"),
    [
        ("14", "result: 14", 10, None),
        ("14", "It printed 14, so\nresult: `14`", 10, None),
        ("14", "plan: 3*4\nThe solver's plan holds.\nresult: 14", 10, None),
        ("14", "It shows that\n`result: 14`.", 10, None),
        ("14", "The answer is 14 (in 2 steps).", 10, None),
        ("14", r"So \boxed{14}, in 2 steps.", 10, None),
        ("14", "result: 14, since 3*4 = 12", 10, None),
        ("14", "The answer is 12, 13, 14 or 15.", 1, "coder_0"),
        ("14", "result: 41", 1, "coder_0"),
        ("Total 14 after 7 steps", "result: 14", 10, None),
        ("Total 14 after 7 steps", "result: 7", 1, "coder_0"),
        ("Total 13 after 7 steps", "result: 13", 2, "coder_0"),
        ("12", "result: 12", 2, "coder_0"),  # it repeats its own error
        ("12", "result: 14", 10, None),
        ("14", "that is all", 0, "coder_0"),
        ("14", "The code printed 14, which agrees with the plan.", 8, None),
        ("14", "14 came out of 3*4 and 2.", 8, None),
        ("14", "After 3 tries it says 15.", 0, "coder_0"),
        ("12", "It printed 12, as planned.", 2, "coder_0"),
        ("12", "It is wrong, since 3 times 4 plus 2 makes 14.", 8, None),
        ("", "result: 14", 5, None),
        ("", "result: 13", 1, "coder_0"),  # nothing printed it
        ("", "result: none", 2, "coder_0"),
    ],
)
def test_coder_report(output: str, text: str, score: float, blame: str | None) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4+2")
    play.act("coder_0", code("print(0)"), ran(output))
    verdict = play.act("coder_0", text)
    assert (verdict.score, verdict.blame) == (score, blame)


def test_coder_without_code() -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4+2")
    verdict = play.act("coder_0", "result: 14")
    assert (verdict.score, verdict.blame) == (0, "coder_0")


@pytest.mark.parametrize(
    ("plan", "output", "result", "answer", "score", "blame"),
    [
        ("3*4+2", "14", "14", r"\boxed{14}", 10, None),
        ("3*4", "12", "12", r"\boxed{12}", 8, "solver_0"),
        ("3*4", "12", "12", r"\boxed{14}", 10, None),
        ("3*4+2", "14", "14", r"\boxed{28/2}", 1, "verifier_0"),  # the form is its own
        ("3*4+2", "14", "14", r"\boxed{7 + 7}", 1, "verifier_0"),
        ("3*4+2", "14", "14", r"\boxed{\frac{28}{2}}", 1, "verifier_0"),
        ("as usual", "14", "", r"\boxed{2\cdot 7}", 1, "verifier_0"),
        ("3*4", "12", "12", r"\boxed{24/2}", 8, "solver_0"),  # in any form it would be wrong
        ("3*4+2", "12", "12", r"\boxed{28/2}", 1, "verifier_0"),
        ("3*4+2", "Total 14 after 7 steps", "14", r"\boxed{14}", 10, None),
        ("as usual", "Total 13 after 7 steps", "13", r"\boxed{13}", 8, "coder_0"),
        ("3*4+2", "12", "12", r"\boxed{12}", 4, "coder_0"),  # the plan that it saw is right
        ("first the product, then 2 more", "12", "12", r"\boxed{12}", 8, "coder_0"),
        ("3*4", "13", "13", r"\boxed{13}", 6, "coder_0"),
        ("3*4", "13", "13", r"\boxed{12}", 6, "solver_0"),
        ("3*4", "14", "14", r"\boxed{12}", 1, "verifier_0"),
        ("3*4+2", "14", "41", r"\boxed{41}", 4, "coder_0"),
        ("as usual", "14", "41", r"\boxed{41}", 4, "coder_0"),  # the output that it saw is right
        ("as usual", "41 (14 cases)", "14", r"\boxed{41}", 6, "coder_0"),
        ("3*4+2", "14", "41", r"\boxed{14}", 10, None),
        ("3*4+2", "14", "14", r"\boxed{41}", 1, "verifier_0"),
        ("3*4+2", "14", "14", "the answer is 14", 0, "verifier_0"),
        ("3*4+2", "", "none", r"\boxed{none}", 6, "coder_0"),
        ("3*4+2", "14", "14", r"\boxed{none}", 1, "verifier_0"),
        ("3*4+2", "12", "12", r"\boxed{none}", 4, "coder_0"),
        ("as usual", "12", "12", r"\boxed{none}", 6, "coder_0"),
        ("3*4", "12", "12", r"\boxed{I cannot tell}", 6, "solver_0"),
        ("3*4+2", "12", "12", r"\boxed{13}", 1, "verifier_0"),
    ],
)
def test_verifier(plan: str, output: str, result: str, answer: str, score: float, blame: str | None) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", f"plan: {plan}")
    play.act("coder_0", code("print(0)"), ran(output))
    play.act("coder_0", f"result: {result}")
    verdict = play.act("verifier_0", answer)
    assert (verdict.score, verdict.blame) == (score, blame)


def test_without_truth_only_form_and_agreement_count() -> None:
    play = Play("mathchat", SUM, truth=False)
    assert play.act("solver_0", "plan: 3*4").score == 10
    assert play.act("coder_0", code("print(3*4)"), ran("12")).score == 10
    assert play.act("coder_0", "result: 12").score == 10
    assert play.act("verifier_0", r"\boxed{12}").score == 10
    other = Play("mathchat", SUM, truth=False)
    other.act("solver_0", "plan: 3*4")
    assert other.act("coder_0", code("print(3+4)"), ran("7")).blame == "coder_0"
    assert other.act("coder_0", "result: 9").score == 1
    assert other.act("verifier_0", r"\boxed{8}").blame == "verifier_0"


def test_reasons_never_tell_the_answer() -> None:
    task = dataclasses.replace(SUM, truth={"answer": "987654"})
    play = Play("mathchat", task)
    play.act("solver_0", "plan: 3*4")
    play.act("coder_0", code("print(3*4)"), ran("12"))
    play.act("coder_0", "result: 12")
    play.act("verifier_0", r"\boxed{12}")
    assert all(a.verdict.reasoning and "987654" not in a.verdict.reasoning for a in play.actions)


@pytest.mark.parametrize("agent", ["solver_0", "coder_0", "verifier_0"])
def test_a_broken_sandbox_is_never_a_number(agent: str) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4+2")
    play.act("coder_0", code("print(3*4+2)"), ran("", "unavailable"))
    verdict = play.act(agent, r"result: 14 \boxed{14}")
    assert (verdict.status, verdict.score) == ("abstain", None)


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text(max_size=200))
def test_any_text_gets_a_score_in_range(text: str, output: str) -> None:
    play = Play("mathchat", SUM)
    method = play.act("solver_0", text)
    plan = plan_in("solver_0", text)
    assert method.score is not None or has_steps(text) or (plan is not None and untold(plan))
    for verdict in (
        play.act("coder_0", code("print()"), ran(output)),
        play.act("coder_0", text, last=True),
        play.act("verifier_0", text),
    ):
        assert verdict.score is not None
        assert 0 <= verdict.score <= 10


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=8), st.sampled_from([" ", "\n", ", ", " or ", " = "])
)
def test_of_many_printed_numbers_at_most_one_is_right(numbers: list[int], between: str) -> None:
    output = output_of("coder_0", ran(between.join(map(str, numbers))))
    assert output is not None
    assert sum(is_right(output, str(gold)) for gold in range(100)) <= 1


def test_floats_agree_and_integers_must_be_equal() -> None:
    def said(text: str) -> Statement:
        return Statement("", text, number_of(text))

    assert same(said("8.000000000000002"), said("8"))
    assert not same(said("10000000"), said("10000001"))
    assert is_right(said("80"), "080 or 081 (both were accepted)")
    assert not is_right(said("words"), "080 or 081 (both were accepted)")


def test_answers_without_a_plain_number_are_compared_as_they_are_written() -> None:
    def right(printed: str, gold: str) -> bool:
        output = output_of("coder_0", ran(printed))
        return output is not None and is_right(output, gold)

    assert right("(1, 2)", "(1,2)")
    assert right(r"2\sqrt{3}", r"\sqrt{12}")
    assert not right(r"\sqrt{196}", "14")  # unevaluated, and the gold is a number
    assert right("3/4", r"\frac{3}{4}")
    assert not right("(2, 2)", "(1,2)")
    assert not right(r"5\sqrt{3}", r"\sqrt{12}")
