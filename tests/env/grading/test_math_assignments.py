"""Values with names: by name, or in the order in which names are meant; and values in lists."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading import make_grader
from mappa_env.grading.math import grade_answer
from mappa_env.grading.votes import pooled
from recorded import recorded

RIGHT = [
    ("x=1, y=2", "(x,y)=(1,2)"),
    ("x=1, y=2", "(y,x)=(2,1)"),
    ("(x,y)=(1,2)", "y=2, x=1"),
    ("(1,2)", "(y,x)=(2,1)"),
    ("(1,2)", "y=2, x=1"),
    ("(3,5,8)", "(c,a,b)=(8,3,5)"),
    ("(2,3)", "(m,b)=(2,3)"),
    ("(7,4)", "(n,k)=(7,4)"),
    (r"(2,\pi,3)", r"(\rho,\theta,\phi)=(2,\pi,3)"),
    (r"(r,\theta)=(3,\frac{\pi}{2})", r"(3,\frac{\pi}{2})"),
    (r"(1,\sqrt2)", r"(y,x)=(\sqrt2,1)"),
    ("(1,2),(3,4)", "(x,y)=(3,4),(1,2)"),
    (r"\{(1,2),(3,4)\}", r"(x,y)\in\{(1,2),(3,4)\}"),
    (r"\{(1,2),(3,4)\}", r"(y,x)\in\{(2,1),(4,3)\}"),
    ("7, -2", "x=7, y=-2"),
    ("7, -2", "y=-2, x=7"),
    ("7, -2", r"x=7\land y=-2"),
    ("7, -2", "x_1=-2, x_2=7"),
    ("(7,-2)", "x_2=-2, x_1=7"),
    ("1, 1, 2", "2, 1, 1"),
    ("1, 1, 2", r"\{1,1,2\}"),
    (r"\{1,2\}", r"\{2,1,2\}"),
    ("(1,2), (3,4)", "(1,2), (3,4), (1,2)"),
    *[
        ("a=1,b=2,c=3", each)
        for each in (r"a=1, b=2,\text{ and }c=3", "c=3; a=1, b=2", r"b=2\text{ and }a=1\text{ and }c=3")
    ],
    ("(1,2,3)", r"a=1, b=2,\text{ and }c=3"),
    ("1, 2, 3", r"a=1, b=2,\text{ and }c=3"),
    (r"A=30^\circ, B=60^\circ\text{ and }C=90^\circ", r"C=90^\circ, A=30^\circ, B=60^\circ"),
    ("(1,2)", "(y=2,x=1)"),
    ("x=1, y=2", "(x=1, y=2)"),
    *[("(2,2)", each) for each in ("x=y=2", "y=x=2")],
    ("a=1,b=1", "a=b=1"),
    ("a=b=1", "a=1, b=1"),
    ("a=b=1", "(1,1)"),
    *[("2", each) for each in ("x=y=2", "x = y = 2")],
    ("x=y=2", "2"),
    (r"(\sqrt2,\sqrt2)", r"x=y=\sqrt2"),
    (r"2\sqrt2", r"x=y=\sqrt8"),
    ("x=2, y=2, z=3", "x=y=2, z=3"),
    ("x=1, y=2 or x=3, y=4", "x=3, y=4 or x=1, y=2"),
]
WRONG = [
    ("x=1, y=2", "(y,x)=(1,2)"),
    ("x=1, y=2", "(x,z)=(1,2)"),
    ("(x,y)=(1,2)", "(x,y)=(2,1)"),
    ("(1,2)", "(y,x)=(1,2)"),
    ("(1,2)", "y=1, x=2"),
    ("(3,5,8)", "(c,a,b)=(3,5,8)"),
    ("(3,2)", "(m,b)=(2,3)"),
    (r"\{(1,2),(3,4)\}", r"(y,x)\in\{(1,2),(3,4)\}"),
    ("(1,2)", "(x,y,z)=(1,2)"),
    ("7, -2", "y=7, x=-2"),
    ("7, -2", "x=-2, y=7"),
    ("(7,-2)", "x_1=-2, x_2=7"),
    ("7, -2", "x_1=-2, x_2=8"),
    ("7, -2", r"x=7\land x=-2"),
    ("1, 2, 3", r"1, 2, 3\text{ and }1"),
    ("1, 2, 3", "1, 2, 3, 3"),
    ("1, 1, 2", "1, 2"),
    ("1, 1, 2", "1, 2, 2"),
    ("1, 2", r"\{1,2,1\}"),
    ("(1,2), (3,4)", "(1,2), (1,2)"),
    *[
        (r"x=1, y=2\text{ and }z=3", each)
        for each in (r"x=2, y=1\text{ and }z=3", r"x=1, w=2\text{ and }z=3", "x=2, y=1; z=3", "x=1, z=3")
    ],
    ("x=1, y=2; z=3", "x=2, y=1; z=3"),
    (r"A=30^\circ, B=60^\circ\text{ and }C=90^\circ", r"B=30^\circ, A=60^\circ\text{ and }C=90^\circ"),
    *[("(1,2)", each) for each in ("(y=1,x=2)", "(x=1,x=2)", "x=y=1", "x=y=2")],
    ("(2,2)", "x=y=z=2"),
    ("(2,2)", "x=x=2"),
    ("a=1,b=1", "a=c=1"),
    ("a=b=1", "c=d=1"),
    ("3", "x=y=2"),
    ("x=2, y=2, z=3", "x=z=2, y=3"),
    ("x=1, y=2 or x=3, y=4", "x=3, y=2 or x=1, y=4"),
]


@pytest.mark.parametrize(("gold", "box"), RIGHT)
def test_the_same_values_of_the_same_names_are_right(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(("gold", "box"), WRONG)
def test_other_names_another_order_and_more_values_are_wrong(gold: str, box: str) -> None:
    assert grade_answer(boxed(gold), gold + " ").correct
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("alone", "value"), [(r"2\%", "2"), (r"2^\circ", "2"), (r"2\text{ cm}", "2"), ("2 m", r"2\text{ cm}")]
)
def test_a_unit_in_a_point_counts_as_it_does_alone(alone: str, value: str) -> None:
    right = grade_answer(boxed(alone), value).correct
    assert grade_answer(boxed(f"({alone},3)"), f"({value},3)").correct == right
    assert grade_answer(boxed(f"3, {alone}"), f"{value}, 3").correct == right


@pytest.mark.parametrize(
    ("boxes", "votes"),
    [
        (["(1,2)", "(x,y)=(1,2)", "(y,x)=(2,1)", "x=1, y=2", "y=2, x=1"], 1),
        ([r"\{1,2\}", r"\{2,1,2\}", "1, 2"], 1),
        (["(1,2)", "(y,x)=(1,2)", "(x,y)=(2,1)"], 2),
        (["1, 2", "1, 2, 1", "1, 1, 2"], 2),
        (["(2,2)", "x=y=2", "x=2, y=2", "(y=2, x=2)"], 1),
        ([r"x=1, y=2\text{ and }z=3", "(1,2,3)", "z=3; x=1, y=2"], 1),
        ([r"x=1, y=2\text{ and }z=3", r"x=2, y=1\text{ and }z=3"], 2),
        (["12", "5+7=12", r"\textbf{(A) 12}", r"\text{A. }12", r"\large 12", r"12\text{-day}"], 1),
        ([r"\mathbb R", r"(-\infty,\infty)", r"\text{all real numbers}"], 1),
        ([r"\{x\mid x\le5\}", r"(-\infty,5]", r"x\le5"], 1),
        ([r"2516_{\text{eight}}", "2516_8"], 1),
        ([r"\text{one half}", r"\frac12", "0.5"], 1),
        ([r"\sqrt2\approx1.41", r"\sqrt{2}"], 1),
        ([r"\text{1 hour and 20 minutes}", r"1\text{ h }20\text{ min}"], 1),
    ],
)
def test_equal_answers_share_a_vote(boxes: list[str], votes: int) -> None:
    grader = make_grader("math")
    said = [grader.answer([recorded(action=boxed(box))]) for box in boxes]
    assert len(set(pooled(said))) == votes, said
