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


SPELLINGS = [
    (r"\sqrt2", "2^{0.5}"),
    (r"\frac{\sqrt2}{2}", r"\sqrt{0.5}"),
    (r"-\ln 2", r"\ln(0.5)"),
    (r"x^{\frac32}", "x^{1.5}"),
    ("e^{-t/2}", "e^{-0.5t}"),
    (r"y=\frac12x+2", "y=.5x+2"),
    (r"100\cdot1.05^t", "100(1.05)^t"),
    (r"\binom{10}{3}", r"{10\choose3}"),
    (r"\binom{n}{k}+1", r"{n \choose k}+1"),
    (r"\frac12", r"\text{one half}"),
    (r"\frac12", r"\text{one-half}"),
    ("2/3", "two thirds"),
    ("0.75", r"\text{three quarters}"),
    (r"-\frac12", r"\text{negative one half}"),
    ("12", "5+7=12"),
    ("12", r"3\cdot4=12"),
    ("12", "0.5+11.5=12"),
    ("6", "10-2^2=6"),
    (r"12\text{ cm}", "5+7=12 cm"),
    (r"\frac{\sqrt3}{2}", r"\frac{\sqrt3}{2}\approx0.866"),
    (r"\pi", r"\pi\approx3.14"),
    ("1/3", r"\frac13\approx0.33"),
    ("0.866", r"\frac{\sqrt3}{2}\approx0.866"),
    ("0.5", r"\sin\theta\approx0.5"),
    ("2516_8", r"2516_{\text{eight}}"),
    ("2516_8", r"2516_\text{eight}"),
    ("AB3_{12}", "AB3_{12}"),
    ("AB3_{12}", r"(AB3)_{\text{twelve}}"),
    ("A_{12}", "A_{12}"),
]
OTHERS = [
    (r"\sqrt2", "2^{0.51}"),
    (r"\sqrt2", "2^{.05}"),
    ("e^{-t/2}", "e^{-0.05t}"),
    (r"\binom{10}{3}", r"{10\choose4}"),
    ("120", r"{10\choose3}"),  # not written in full
    (r"\frac12", r"\text{two fourths}"),
    (r"\frac12", r"\text{one third}"),
    (r"\frac12", r"\text{not one half}"),
    ("5/2", r"\text{two and one half}"),
    ("12", "5+7=13"),
    ("13", "5+7=13"),
    ("13", "12=13"),
    ("12", "5+7"),
    ("12", "5+7=12=13"),
    (r"12\text{ m}", "5+7=12 cm"),
    (r"12\text{ m}", "a+b=12 cm"),
    (r"\frac{\sqrt3}{2}", r"\frac{\sqrt2}{2}\approx0.866"),
    ("1/3", r"\frac14\approx0.33"),
    ("2516_8", r"2516_{\text{nine}}"),
    ("2516_8", "2516"),
    ("AB3_{12}", "BA3_{12}"),
    ("AB3_{12}", "AB3_{13}"),
]


@pytest.mark.parametrize(("gold", "box"), SPELLINGS)
def test_a_constant_may_be_spelled_otherwise(gold, box):
    assert grade_answer(boxed(box), gold).correct
    assert grade_answer(boxed(gold), gold + " ").correct


@pytest.mark.parametrize(("gold", "box"), OTHERS)
def test_other_constants_and_computations_are_wrong(gold, box):
    assert not grade_answer(boxed(box), gold).correct
