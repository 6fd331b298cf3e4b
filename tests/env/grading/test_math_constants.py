"""Constants and coefficients that algebra compares: in all their digits, at any size, in time."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"1-\frac1{2010!}", "1"),
        (r"1-\frac1{2010!}", r"1-\frac1{2009!}"),
        ("2^{2018}-1", "2^{2018}"),
        ("50!-1", "50!"),
        ("1/2^{2018}", "1/2^{2019}"),
        (r"\binom{2000}{1000}", r"\binom{2000}{1000}+1"),
        (r"\sqrt{2}", r"\sqrt{2}+10^{-60}"),
        (r"\sqrt{2}", r"\sqrt{2}+\frac{1}{300!}"),
        (r"\sqrt{10^{300}+1}", "10^{150}"),
        (r"2^{100}\pi", r"(2^{100}+1)\pi"),
        ("e^{-1000}", "e^{-1001}"),
        ("1+e^{-1000}", "1+e^{-1001}"),
        (r"\log(2^{1000}+1)", r"\log(2^{1000})"),
        ("(2^{2018},1)", "(2^{2018}-1,1)"),
        (r"\{2^{2018},1\}", r"\{2^{2018}+1,1\}"),
        ("x<2^{2018}", "x<2^{2018}+1"),
        ("2^{100}x", "(2^{100}+1)x"),
        ("x^{1000}+10^{-50}", "x^{1000}"),
        ("y=2^{100}x", "y=(2^{100}+1)x"),
        (r"x+\sqrt{2}", "x+1.41421356237309505"),
        (r"\begin{pmatrix}2^{99}x\\1\end{pmatrix}", r"\begin{pmatrix}(2^{99}+1)x\\1\end{pmatrix}"),
    ],
)
def test_constants_and_coefficients_are_compared_in_all_their_digits(one, other):
    assert not grade_answer(boxed(one), other).correct
    assert not grade_answer(boxed(other), one).correct
    assert grade_answer(boxed(one), one + " ").correct


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("50!", r"50\cdot 49!"),
        ("2^{-2018}", "1/2^{2018}"),
        (r"\frac{2010!-1}{2010!}", r"1-\frac{1}{2010!}"),
        (r"\sqrt{6}-\sqrt2\sqrt3", r"0\cdot\pi"),
        (r"\cos^2(1)+\sin^2(1)", r"\frac{\pi}{\pi}"),
        (r"\sqrt{5+2\sqrt6}", r"\sqrt2+\sqrt3"),
        ("e^{-1000}", r"\frac{1}{e^{1000}}"),
        (r"(1+\sqrt2)^{100}", r"(3+2\sqrt2)^{50}"),
        (r"\ln(2^{1000})", r"1000\ln 2"),
        ("2^{100}x", "2^{99}(2x)"),
        (r"\frac{1}{\sqrt2}x", r"\frac{\sqrt2}{2}x"),
        (r"\begin{pmatrix}2^{99}\\1\end{pmatrix}", r"\begin{pmatrix}2\cdot2^{98}\\1\end{pmatrix}"),
    ],
)
def test_equal_constants_and_coefficients_are_right_at_any_size(one, other):
    assert grade_answer(boxed(one), other).correct
    assert grade_answer(boxed(other), one).correct


@pytest.mark.slow
@pytest.mark.parametrize("text", ["10^{10^9}", "(10^6)!", "2^{-10^9}", r"e^{-10^{10}}+\sqrt2"])
def test_the_largest_constants_end_in_time_and_equal_nothing(text):
    assert not grade_answer(boxed(text), r"\sqrt{2}").correct
