"""Letters of choices beside their values, as AMC and models write them."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer

LABELS = [
    *[
        r"\textbf{(A) %s}",
        r"\textbf{(A)} %s",
        r"\textbf{(A)}\ %s",
        r"\textbf{(A) } %s",
        r"\text{(A)}\qquad %s",
    ],
    *[r"\mathrm{(A)}~%s", r"\mathrm{(A) \ }%s", r"\mathbf{(A)}\ %s", r"\mathbf{(A)\ } %s", "(A) %s"],
    *[r"\text{A) }%s", r"\text{A)} %s", "A) %s", "A)%s", r"\textbf{A) %s}"],
    *[r"\textbf{A. }%s", r"\text{A.} %s", "A. %s", r"\text{A. %s}"],
    *["A: %s", r"\text{A: }%s", r"\textbf{A:} %s", r"\text{A: %s}"],
    *[r"%s\text{ (A)}", r"%s\ \textbf{(A)}", r"\text{%s (A)}"],
    *[r"(\textbf{A})\ %s", r"\text{A}: %s", r"\text{A}. %s", r"\text{A - %s}"],
    *[
        r"\text{Option (A) }%s",
        r"\text{Choice A: }%s",
        r"\text{Option A}: %s",
        "Choice (A) %s",
        r"\text{answer A. %s}",
    ],
]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("value", ["12", "-3.5", "Evelyn", "no solution"])
def test_a_choice_is_right_for_its_letter_and_for_its_value(label: str, value: str) -> None:
    box, text = label % value, rf"\text{{{value}}}"
    for gold in (value if value[-1].isdigit() else text, "A", r"\textbf{(A)}", rf"\textbf{{(A)}}\ {text}"):
        assert grade_answer(boxed(box), gold).correct, gold
        assert grade_answer(boxed(gold), box).correct, gold


@pytest.mark.parametrize("label", LABELS)
def test_another_letter_or_another_value_is_wrong(label: str) -> None:
    box = label % "12"
    for gold in ("13", "B", r"\textbf{(B)}", r"\textbf{(B)}\ 12", r"\textbf{(A)}\ 13", "B) 12", "A. 13"):
        assert not grade_answer(boxed(box), gold).correct, gold
        assert not grade_answer(boxed(gold), box).correct, gold


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        (r"\frac{\sqrt{2}}{3}", r"\textbf{(D)}\ \frac{\sqrt2}{3}"),
        (r"\frac{\sqrt{2}}{3}", r"\textbf{(D) }\dfrac{\sqrt2}{3}"),
        ("(1,2)", r"\textbf{(D)}\ (1,2)"),
        ("3, 4", r"\text{(B) 3, 4}"),
        (r"12\text{ apples}", r"\text{(B) 12 apples}"),
        ("E", r"\text{(E) None of these}"),
        *[("C", each) for each in (r"\text{Choice C}", r"\text{Choice}~C", r"\text{Option } C")],
        *[("12", each) for each in ("12 (C)", r"\textbf{C}\ 12", r"\$12 (C)")],
        *[("(1,2)", each) for each in ("(A) (1,2)", r"\textbf{(A)}\ (1,2)", "A) (1,2)")],
        ("[1,2)", "(A) [1,2)"),
        *[("C", each) for each in ("(C) n", "C: n", r"\text{(C) I}", r"\text{C - 12}")],
        ("n", "C: n"),
    ],
)
def test_the_value_may_be_anything(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        *[("A", each) for each in (r"\text{(A) and (C)}", "(A) and (C)", r"\text{A) or B)}", "(A), (B)")],
        *[("A", each) for each in (r"\text{(A) is wrong}", r"\text{A. is not right}", r"\text{(A), (B)}")],
        *[("B", each) for each in ("A:B", "A: B", "(A)(B)", r"\text{(A) or (B)}", "AB")],
        ("12", r"\textbf{(A)}\ 12\ \textbf{(B)}\ 13"),
        *[("12", each) for each in ("A 12", "12(C)", r"\text{C}12", "12C", "x (C) 12")],
        ("x", "x (C)"),
        ("x+1", "(A) (x+1)"),
        ("(1,2)", "(A)(1,2)"),
        ("C", r"\text{C - x}"),
        ("C", "C - 12"),
        *[("C", each) for each in (r"\text{Choice Cat}", r"\text{Option C is wrong}", r"\text{Choice}~C, D")],
        *[("A", each) for each in (r"\text{A}. 12\ \text{B}. 13", r"\text{A.} 12\ \text{B.} 13")],
        ("12", "A.12B"),
    ],
)
def test_several_letters_and_words_about_one_are_no_choice(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    "box",
    [
        *[
            "(A) B",
            r"\textbf{(A)}\ B",
            r"\textbf{(A)}\ \textbf{B}",
            r"\text{(A) B}",
            "A) B",
            r"B \text{ (A)}",
        ],
        *[r"\text{(A) choice B}", r"\text{(A) B}", "(A) (B)", "A. B", r"\text{A}: B", r"\text{Option (A) }B"],
        *["(A) B. 12", r"(A) B, C", r"\text{(A) B and C}", r"\text{A - B}", r"\textbf{A}\ B", "(A) {B}"],
    ],
)
def test_the_letter_of_another_choice_beside_a_letter_is_no_answer(box: str) -> None:
    for gold in ("A", "B", r"\textbf{(A)}", r"\textbf{(B)}\ 12", r"\textbf{(A)}\ 12", "12"):
        assert not grade_answer(boxed(box), gold).correct, gold


def test_a_ratio_of_letters_is_none() -> None:
    assert grade_answer(boxed("A : B"), "A:B").correct
    assert not grade_answer(boxed("A:B"), "B:A").correct
