"""The rubric on mathematics: plans, code, reports and answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.coach.rubric.claims_math import Statement, is_right, number_in, same
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
        ("First multiply the two numbers, then add two to the product.", 0.5, None),
        ("No idea.", 0.5, None),
        ("<think>plan: 3*4+2</think>", 0, "solver_0"),
        ("", 0, "solver_0"),
    ],
)
def test_solver(text: str, score: float, blame: str | None) -> None:
    verdict = Play("mathchat", SUM).act("solver_0", text)
    assert (verdict.status, verdict.score, verdict.blame) == ("ok", score, blame)


@pytest.mark.parametrize(
    ("plan", "tool", "score", "blame"),
    [
        ("3*4+2", ran("14\n"), 10, None),
        ("3*4+2", ran("steps\nx = 14.0\n"), 10, None),
        ("3*4", ran("12\n"), 8, "solver_0"),
        ("3*4", ran("14\n"), 10, None),
        ("3*4", ran("13\n"), 1, "coder_0"),
        ("3*4+2", ran("12\n"), 1, "coder_0"),
        ("3*4+2", ran(""), 2, "coder_0"),
        ("3*4+2", ran("", "error", "Traceback\nNameError: name 'prnt' is not defined"), 2, "coder_0"),
        ("3*4+2", ran("", "error", "SyntaxError: invalid syntax"), 2, "coder_0"),
        ("3*4+2", ran("14\n", "timeout"), 2, "coder_0"),
        ("1+frob(2)", ran("", "error", "NameError: name 'frob' is not defined"), 6, "solver_0"),
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
        ("14", "result: 41", 1, "coder_0"),
        ("12", "result: 12", 10, "coder_0"),  # an honest report of what it computed wrongly before
        ("12", "result: 14", 10, None),
        ("14", "that is all", 0, "coder_0"),
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
        ("3*4+2", "12", "12", r"\boxed{12}", 8, "coder_0"),
        ("3*4+2", "14", "41", r"\boxed{41}", 6, "coder_0"),
        ("3*4+2", "14", "41", r"\boxed{14}", 10, None),
        ("3*4+2", "14", "14", r"\boxed{41}", 1, "verifier_0"),
        ("3*4+2", "14", "14", "the answer is 14", 0, "verifier_0"),
        ("3*4+2", "", "none", r"\boxed{none}", 6, "coder_0"),
        ("3*4+2", "14", "14", r"\boxed{none}", 1, "verifier_0"),
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
    for verdict in (
        play.act("solver_0", text),
        play.act("coder_0", code("print()"), ran(output)),
        play.act("coder_0", text, last=True),
        play.act("verifier_0", text),
    ):
        assert verdict.score is not None
        assert 0 <= verdict.score <= 10


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("14", 14),
        ("x = -3", -3),
        ("2.50", number_in("5/2")),
        ("1,292", 1292),
        ("3*4", 12),
        ("1/0", None),
        ("no", None),
        ("", None),
        ("9" * 500, None),
    ],
)
def test_numbers_in_texts(text: str, number: Any) -> None:
    assert number_in(text) == number


def test_floats_agree_and_integers_must_be_equal() -> None:
    def said(text: str) -> Statement:
        return Statement("", text, number_in(text))

    assert same(said("8.000000000000002"), said("8"))
    assert not same(said("10000000"), said("10000001"))
    assert is_right(said("80"), "080 or 081 (both were accepted)")
    assert not is_right(said("words"), "080 or 081 (both were accepted)")
