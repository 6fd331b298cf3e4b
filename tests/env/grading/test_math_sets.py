"""Sets that have a name or a condition, and statements of which one holds."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer

SAME = [
    *[(r"(-\infty,\infty)", each) for each in (r"\mathbb R", r"\mathbb{R}", r"x\in\mathbb{R}", "ℝ", r"\R")],
    (r"(-\infty,\infty)", r"\text{all real numbers}"),
    *[
        (r"\emptyset", each)
        for each in (r"\text{empty set}", r"\text{the empty set}", r"\{\}", r"\varnothing")
    ],
    *[
        (r"(-\infty,5]", each)
        for each in (r"\{x\mid x\le5\}", r"\{x : x\le 5\}", r"\left\{x\,|\,x\leq5\right\}")
    ],
    (r"(1,\infty)", r"\{t\mid t>1\}"),
    (r"(1,5]", r"\{x\in\mathbb{R}: 1<x\le 5\}"),
    (r"(-\infty,1)\cup(5,\infty)", r"\{x\mid x<1\text{ or }x>5\}"),
    (r"[\sqrt2,\infty)", r"\{x\mid x\ge\sqrt2\}"),
    ("-2, 1", r"x=-2\lor x=1"),
    ("-2, 1", r"x=1\vee x=-2"),
    (r"x<1\text{ or }x>5", r"x<1\lor x>5"),
    (r"p\lor q", r"p\vee q"),
    (r"\mathbb{Z}", r"\mathbb Z"),
    *[(r"(-3,3)", each) for each in ("|y|<3", r"\left|x\right|<3", "3>|x|", "]-3,3[", r"(-3,0]\cup(-1,3)")],
    (r"[-1,7]", r"|t-3|\le4"),
    (r"(-\infty,-7)\cup(1,\infty)", r"|x+3|>4"),
    *[
        (r"(-\infty,4)\cup(4,\infty)", each)
        for each in (r"x\ne4", r"\{t : t\neq 4\}", r"\mathbb{R}\setminus\{4\}", r"\mathbb R\backslash\{4\}")
    ],
    (r"(-\infty,4)\cup(4,\infty)", r"\text{all reals except }4"),
    (r"(-\infty,4)\cup(4,\infty)", r"\text{the set of all real numbers other than 4}"),
    (r"(-\infty,0)\cup(0,5)\cup(5,\infty)", r"\text{All real numbers except }0\text{ and }5"),
    (r"(-\infty,0)\cup(0,5)\cup(5,\infty)", r"\mathbb{R}\setminus\{5,0\}"),
    (r"[0,2)\cup(2,4]", r"[0,4]\setminus\{2\}"),
    (r"(-\infty,0]\cup[3,\infty)", r"\mathbb{R}\setminus(0,3)"),
    (r"(-\infty,1)\cup[3,\infty)", r"]-\infty,1[\cup[3,+\infty["),
    (r"(2,\infty)", r"]2;\infty["),
    (r"(0,5]", r"(0,2]\cup[2,5]"),
    (r"[0,4)\cup(4,\infty)", r"x\ge0, x\ne4"),
    (r"[0,4)\cup(4,\infty)", r"x\ge0\text{ and }x\ne4"),
    (r"(-\infty,-1)\cup(-1,6)\cup(6,\infty)", r"x\ne-1,6"),
    (r"(-\infty,-1)\cup(-1,6)\cup(6,\infty)", r"x\ne6\text{ and }x\ne-1"),
    (r"(-\sqrt5,\sqrt5)", r"|x|<\sqrt5"),
    (r"(-\infty,\pi)\cup(\pi,\infty)", r"\mathbb{R}\setminus\{\pi\}"),
    (r"(-\infty,\pi)\cup(\pi,\infty)", r"x\neq\pi"),
    (r"\{1,2\}", r"\{1\}\cup\{2\}"),
    (r"(0,1)\cup\{2\}", r"\{2\}\cup(0,1)"),
]
OTHER = [
    (r"(-\infty,\infty)", "R"),
    (r"(-\infty,\infty)", r"\mathbb{Q}"),
    (r"(-\infty,\infty)", r"\text{all real numbers except }1"),
    (r"(0,\infty)", r"\mathbb R"),
    *[(r"\emptyset", each) for each in (r"\{0\}", r"\text{not the empty set}", r"\text{nonempty set}", "0")],
    (r"(-\infty,5]", r"\{x\mid x<5\}"),
    (r"(-\infty,5]", r"\{x\mid x\ge5\}"),
    (r"(-\infty,5]", r"\{y\mid x\le5\}"),
    (r"(-\infty,5]", r"\{x\in\mathbb{Z}\mid x\le5\}"),
    ("5", r"\{x\mid x=5\}"),
    ("-2, 1", r"x=-2\lor x=2"),
    ("-2, 1", r"x=-2\land x=1"),
    (r"p\lor q", r"p\land q"),
    ("p, q", r"p\lor q"),
    *[(r"(-3,3)", each) for each in (r"|x|\le3", "|x|>3", "|x|<-3", "|x|<2", "[-3,3[", r"(-3,0)\cup(0,3)")],
    *[
        (r"(-\infty,4)\cup(4,\infty)", each)
        for each in (
            r"x\ne-4",
            "x=4",
            r"\mathbb{R}\setminus\{-4\}",
            r"\mathbb{R}",
            r"\text{all reals except }5",
        )
    ],
    (r"[0,4]", r"[0,4]\setminus\{2\}"),
    (r"[0,4]", r"[0,4]\setminus\{4\}"),
    (r"x\ne4", "4"),
    (r"x\ne4", r"x\ne4\text{ or }x\ne5"),
    (r"[0,4)\cup(4,\infty)", r"x\ge0, y\ne4"),
    (r"[0,4)\cup(4,\infty)", r"x\ge0, x\ne5"),
    (r"(-\sqrt5,\sqrt5)", r"|x|<-\sqrt5"),
    (r"(0,1)\cup\{2\}", "(0,1)"),
]


@pytest.mark.parametrize(("gold", "box"), SAME)
def test_one_set_may_be_said_in_several_ways(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct
    assert grade_answer(boxed(gold), box).correct


@pytest.mark.parametrize(("gold", "box"), OTHER)
def test_other_sets_and_statements_are_wrong(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct
