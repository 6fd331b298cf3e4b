"""A number has one sign at most, and its scale may be written short."""

from __future__ import annotations

import time

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer
from mappa_env.grading.numbers import read_number


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("12", "-(-12)"),
        ("12", "+(+12)"),
        ("-12", "+(-12)"),
        ("-12", "-(+12)"),
        ("12", r"-\left(-12\right)"),
        ("12", "(-(-12))"),
        ("12", "x=-(-12)"),
        ("12", r"-(-12)\%"),
        ("12", r"-(-12)\text{ cm}"),
        ("12", r"-(-12)^\circ"),
        (r"\$12", r"-\$(-12)"),
        ("0.5", "-(-0.5)"),
        ("1200", r"-(-1.2\times10^3)"),
        (r"\frac34", r"-(-\frac34)"),
        (r"\frac34", r"-\frac{-3}{4}"),
        (r"\frac34", r"\frac{-3}{-4}"),
        (r"-\frac34", r"-\frac{-3}{-4}"),
        (r"2\frac12", r"2\frac{-1}{-2}"),
        ("(1,2)", "(-(-1),2)"),
        ("1,2", "-(-1),2"),
    ],
)
def test_two_signs_are_still_to_be_evaluated(gold: str, box: str) -> None:
    grade = grade_answer(boxed(box), gold)
    assert (grade.correct, grade.status) == (False, "unevaluated")


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("-12", "-(12)"),
        ("-12", "(-12)"),
        ("12", "+(12)"),
        (r"\$12", r"\$(12)"),
        (r"-\frac34", r"-(\frac34)"),
        (r"-\frac34", r"\frac{-3}{4}"),
        (r"-\frac34", r"\frac{3}{-4}"),
        ("-0.012", r"-1.2\times10^{-2}"),
        ("(-1,2)", "(-(1),2)"),
    ],
)
def test_one_sign_is_a_number_in_brackets_too(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize("short", ["doz", "doz.", "doz eggs", "dz", "mln", "mio", "bil", "thou", "milliards"])
def test_short_words_of_number_are_no_units(short: str) -> None:
    assert not grade_answer(boxed(rf"12\text{{ {short}}}"), "12").correct


@pytest.mark.parametrize(("gold", "box"), [("144", r"12\text{ doz}"), (r"12\text{ dozen}", r"12\text{ doz}")])
def test_a_dozen_has_a_short_form(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


def test_many_signs_take_linear_time() -> None:
    began = time.process_time()
    for text in ("-" * 399, "-(" * 199, "-(-" * 133, r"\frac{-" * 57, r"\frac{-1}{-" * 36):
        for _ in range(200):
            assert read_number(text) is None
    assert time.process_time() - began < 2
