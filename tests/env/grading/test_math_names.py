"""Left sides beside a function, a derivative and a condition; and words before and after an answer."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("f'(x)=2x", "f(x)=2x"),
        ("f'(x)=2x", "f''(x)=2x"),
        ("f(x)=2x", "g(x)=2x"),
        ("y''=2x", "y'=2x"),
        ("y=2x", "y'=2x"),
        ("y=2x", "z=2x"),
        ("y=2x", r"\Delta y=2x"),
        *[
            ("y=2x", rf"\text{{{each}}}y=2x")
            for each in ("no solution; ", "3 or ", "the inverse of ", "not ")
        ],
        *[("2x", rf"\text{{{each}}}y=2x") for each in ("no solution; ", "3 or ", "the inverse of ", "not ")],
        (r"\frac{dy}{dx}=2x", r"\frac{dx}{dy}=2x"),
        (r"\frac{dy}{dx}=2x", r"\frac{dz}{dt}=2x"),
        (r"\frac{dy}{dx}=2x", "y=2x"),
        (r"\frac{d^2y}{dx^2}=2x", r"\frac{dy}{dx}=2x"),
        (r"\frac{dy}{dx}=\frac{x}{y}", r"\frac{dx}{dy}=\frac{x}{y}"),
        ("x>1", "z>1"),
        ("0<x<1", "0<y<1"),
        (r"x\le\sqrt2", r"y\le\sqrt2"),
        ("x<1 or x>5", "z<1 or z>5"),
        (r"n\equiv 1", "n=1"),
        (r"n\equiv 1", "1"),
        ("n=1", r"n\equiv 1"),
        ("A=r^2", "V=r^2"),
        *[
            ("x^3", f"{each}=x^3")
            for each in ("f''(x)", "f'(x)", "y'", r"\frac{dy}{dx}", r"\frac{d^2y}{dx^2}")
        ],
        ("5t", "x'=5t"),
        ("x^2+C", r"f^{\prime}(x)=x^2+C"),
    ],
)
def test_another_left_side_is_wrong(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("f'(x)=2x", "2x"),
        ("f'(x)=2x", "f'(x)=x+x"),
        ("f'(x)=2x", r"f^{\prime}(x)=2x"),
        ("f'(x)=2x", "y'=2x"),
        ("y'=2x", r"\frac{dy}{dx}=2x"),
        (r"\frac{dy}{dx}=2x", "y'=2x"),
        (r"\frac{dy}{dx}=2x", "2x"),
        (r"\frac{d^2y}{dx^2}=2x", "y''=2x"),
        (r"\frac{dy}{dx}=\frac{x}{y}", r"y'=\frac{x}{y}"),
        ("y=2x", "f(x)=2x"),
        ("f(x)=2x", "y=2x"),
        ("y=2x", "2x=y"),
        ("y=2x", "y-2x=0"),
        ("y=2x", r"\text{The equation is }y=2x"),
        ("y=2x", r"\text{Answer: }y=2x"),
        (r"A=\pi r^2", r"\text{Area}=\pi r^2"),
        (r"AB=\sqrt2", r"\overline{AB}=\sqrt2"),
        ("a_n=n^2", "a_{n}=n^2"),
        ("x>1", r"(1,\infty)"),
        (r"(1,\infty)", "z>1"),
        ("x>1", "1<x"),
        ("x=5", "5"),
        ("5", "x=5"),
        ("5", "f'(3)=5"),
        (r"\sqrt2", r"f'(3)=\sqrt2"),
        ("f''(x)=x^3", "x^3"),
        ("f''(x)=x^3", "y''=x^3"),
        ("12", r"|A\cup B|=12"),
        ("12", r"n(A\cup B)=12"),
    ],
)
def test_a_left_side_may_be_missing_or_spelled_otherwise(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        *[("12", each) for each in (r"\text{Answer: }12", r"\text{The answer is }12", r"\text{Answer: 12}")],
        ("12", r"\text{The final answer is: }12"),
        ("12", r"12\text{ (C)}"),
        ("12", r"12\ \textbf{(C)}"),
        ("(C)", r"12\text{ (C)}"),
        (r"12\text{ (C)}", r"\text{(C) }12"),
        *[("-5", rf"\text{{{each}}}") for each in ("negative 5", "minus 5", "negative five")],
        ("-5", r"\text{negative }5"),
        ("-5", r"\text{minus }5"),
        (r"-\sqrt2", r"\text{negative }\sqrt2"),
        ("101_2", "(101)_2"),
        ("(101)_2", "101_{2}"),
        (r"\ln 2", r"\log_e 2"),
        (r"\log_{e} 2", r"\ln 2"),
        ("1", r"0.\overline{9}"),  # a number written in full, and no other one
    ],
)
def test_labels_signs_and_bases_may_be_spelled_otherwise(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        *[("12", rf"\text{{{each}: }}12") for each in ("Wrong", "no", "half", "Not", "Answer: not", "12 or")],
        ("12", r"\text{The opposite is }12"),
        ("12", r"\text{The answer is not }12"),
        ("12", r"13\text{ (C)}"),
        (r"12\text{ (C)}", r"12\text{ (B)}"),
        ("5", r"\text{negative }5"),
        ("-5", r"\text{not negative }5"),
        ("101_2", "(101)_3"),
        ("101_2", "(110)_2"),
        (r"\ln 2", r"\log 2"),
        ("1", r"0.\overline{8}"),
    ],
)
def test_labels_that_deny_and_other_signs_are_wrong(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct
