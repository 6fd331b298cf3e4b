"""Equations that are answers: curves, identities and systems, beside those whose left side is asked for."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import MathGrader, grade_answer
from mappa_env.grading.votes import pooled
from recorded import recorded

SAME = [
    *[("x+y=5", each) for each in ("x+y=5", "y=5-x", "2x+2y=10", "5=x+y", "x+y-5=0", "x = 5-y")],
    ("x+y=0", "y=-x"),
    (r"\frac{x}{3}+\frac{y}{4}=1", "4x+3y=12"),
    *[("xy=6", each) for each in ("xy = 6", "yx=6", "xy-6=0")],
    ("PV=nRT", "PV = nRT"),
    ("|z|=1", "|z| = 1"),
    ("x^2+y^2=25", "y^2=25-x^2"),
    *[("m+n=5", each) for each in ("5", "m+n=5", "x=5")],
    *[(f"{each}=5", "5") for each in ("x", "f(3)", "a+b+c", "100m+n", "x_1+x_2", "AB", "|AB|", r"\angle x")],
    *[(rf"{each}=5", "5") for each in (r"\text{Area}", r"\gcd(x,y)", "f(x)+g(x)", r"\|v\|", "x:y", "AB^2")],
    *[(rf"{each}=\sqrt2", r"\sqrt2") for each in ("m+n", r"\frac{NO}{BO}", r"\frac{AB}{CD}", r"\sin\theta")],
    *[(f"{each}=2t", "2t") for each in ("f(t)", r"(f\circ g)(t)", "f(t)+g(t)", r"\frac{dy}{dt}", "A_1")],
    (r"A^{-1}=\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    *[(rf"{each}=\frac12", r"\frac12") for each in (r"\int_0^1 x dx", r"\det A")],
    (r"\sum_{i=1}^{n} i=\frac{n(n+1)}{2}", r"\frac{n(n+1)}{2}"),
    (r"\frac{d}{dx}f(x)=2x", "2x"),
    *[("5", each) for each in ("m+n=5", "x+y=5", "xy=5", "x^2+y^2=5")],
    ("0", "m+n=0"),
    ("nRT", "PV=nRT"),
    ("12", "[ABC]=12"),
    ("12", "AB^2=12"),
    (r"r=2\cos\theta", r"2\cos\theta"),
    (r"f(\theta)=2\theta", r"f(\theta)=\theta+\theta"),
    *[(f"x={each}", f"y={each}") for each in (r"2\pi", "2e", "2i", r"\sqrt2")],
    (r"\frac{dy}{dx}", r"\frac{dy}{dx}"),
    ("E[X^2]-E[X]^2", "E[X^2]-E[X]^{2}+0"),
    (r"(-\infty,-2)\cup(2,\infty)", r"x<-2\text{ or }x>2"),
]
OTHER = [
    *[("x+y=5", each) for each in ("5", "x=5", "m+n=5", "x-y=5", "y=x+5", "x+y=6", "x+y")],
    *[
        (f"{each}=1", "1")
        for each in ("x+y+z", r"\frac{x}{3}+\frac{y}{4}", "|x|+|y|", "|z|", "x^2+y^2", "xy")
    ],
    ("x+y=0", "0"),
    ("a^2+b=0", "0"),
    ("a^2+a=0", "0"),
    ("x^2=4", "4"),
    ("xy=6", "uv=6"),
    *[("PV=nRT", each) for each in ("nRT", "PV=nR", "PT=nRV")],
    ("a^2+b^2=c^2", "c^2"),
    ("y''+y=2t", "2t"),
    *[("0", each) for each in ("2x+3y-5=0", "x-y+7=0", r"x+y-\frac12=0", "3+m+n=0")],
    *[
        ("12", each)
        for each in ("2[ABC]=12", "[ABC]^2=12", r"\sqrt{[ABC]}=12", r"\frac{AB}{2}=12", "AB+2=12")
    ],
    ("12", r"\frac{1}{AB}=12"),
    *[(rf"{each}=2\theta", r"x=2\theta") for each in ("y", "r", r"f(\theta)")],
    (r"2\theta", r"f'(\theta)=2\theta"),
    (r"f(\theta)=2\theta", r"f'(\theta)=2\theta"),
    (r"\theta>1", r"\phi>1"),
    (r"\frac{dy}{dx}", r"\frac{dx}{dy}"),
    (r"x\frac{dy}{dx}", r"x\frac{d^2y}{dx^2}"),
    *[("E[X^2]", each) for each in ("E[X]^2", "E[X]", "E[X^3]")],
    (r"(-\infty,-2)\cup(2,\infty)", r"y<-2\text{ or }x>2"),
    ("x<-2 or x>2", "y<-2 or x>2"),
]


@pytest.mark.parametrize(("gold", "box"), SAME)
def test_the_same_equation_is_right_and_so_is_what_its_left_side_asks_for(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(("gold", "box"), OTHER)
def test_another_equation_or_its_right_side_alone_is_wrong(gold: str, box: str) -> None:
    assert grade_answer(boxed(gold), gold + " ").correct
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("boxes", "votes"),
    [
        (["2x+3y-5=0", "x-y+7=0", "0"], 3),
        (["x+y=5", "2x-3y=5", "5"], 3),
        (["xy=6", "uv=6", "6"], 3),
        (["x+y=5", "x + y = 5"], 1),
        (["m+n=12", "12", r"AB=12", r"\text{Area}=12"], 1),
        (["2x", "f'(x)=2x"], 2),
        (["f'(x)=2x", "y'=2x", r"\frac{dy}{dx}=2x"], 1),
        ([r"y=2\theta", r"x=2\theta"], 2),
        (["12", r"1\,2", r"\{12\}"], 3),
        ([r"1~2", r"1\quad 2", r"1\ 2"], 1),
        ([r"\{5\}", r"\{ 5 \}", r"\{5, 5\}"], 1),
        (["2 x", "2x"], 1),
    ],
)
def test_equations_and_their_right_sides_are_two_votes(boxes: list[str], votes: int) -> None:
    said = [MathGrader().answer([recorded(action=boxed(box))]) for box in boxes]
    assert len(set(pooled(said))) == votes, said
