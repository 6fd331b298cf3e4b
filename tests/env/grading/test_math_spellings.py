"""Short words, units of one letter, ratios, points with a letter, small characters, and conditions."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import MathGrader, grade_answer
from mappa_env.grading.votes import pooled
from recorded import recorded

RIGHT = [
    *[(r"\text{No}", each) for each in ("No", "no", "NO", r"\text{no}", r"\textbf{No}", "No.")],
    *[(each, r"\text{No}") for each in ("No", "no", "NO")],
    *[(rf"\text{{{each}}}", each) for each in ("up", "on", "go", "No", "TF", "HT")],
    ("no", "No"),
    ("TF", "TF"),
    ("AB", "BA"),
    ("ab", "ba"),
    *[("12", f"12 {each}") for each in "NVWJA"],
    *[(rf"12\text{{ {each}}}", f"12 {each}") for each in "NVWJA"],
    ("25", "25 K"),
    ("9.8", "9.8 N"),
    ("-1.5", "-1.5 V"),
    *[(each, "3:2") for each in (r"\frac{3}{2}", "3/2", "1.5")],
    ("3:2", r"\frac32"),
    (r"\frac{a}{b}", "a:b"),
    (r"\frac{\sqrt2}{3}", r"\sqrt2:3"),
    *[("(1,2)", each) for each in ("A(1,2)", "P(1,2)", "A(1, 2)")],
    ("A(1,2)", "(1,2)"),
    ("A(1,2)", "A(1,2)"),
    (r"(\sqrt2,1)", r"M(\sqrt2,1)"),
    ("(1,2),(3,4)", "B(3,4), A(1,2)"),
    ("A(1,2), B(3,4)", "(1,2), (3,4)"),
    *[("1/2", each) for each in ("½", r"\frac12", "1⁄2")],
    ("-1/2", "-½"),
    *[("2.5", each) for each in ("2½", "2 ½")],
    *[("x^2", each) for each in ("x²", "x^{2}")],
    ("x^{12}", "x¹²"),
    ("x^{-1}", "x⁻¹"),
    ("x_1+1", "x₁+1"),
    ("100", "100\\text{ cm²}"),
    (r"3\text{ cm}^2", "3 cm²"),
    (r"\frac{x}{2}", "½x"),
    *[("(-2,2)", each) for each in (r"x<2\text{ and }x>-2", r"x>-2\text{ and }x<2", "-2<x<2")],
    (r"x<2\text{ and }x>-2", "(-2,2)"),
    (r"[-2,\sqrt{12})", r"x\ge-2\text{ and }x<2\sqrt3"),
    (r"\{x\mid x\ge2\}", r"\{y\mid y\ge2\}"),
    (r"\{x\mid x<1\text{ or }x>2\}", r"\{t: t<1\text{ or }t>2\}"),
    (r"\{x\mid x\ge2\}", r"x\ge2"),
]
WRONG = [
    ("no", "on"),
    ("No", "N"),
    *[(r"\text{No}", each) for each in (r"\text{Yes}", "on", "No, 1", "no or yes")],
    ("TF", "FT"),
    ("HT", "TH"),
    ("12", "12N"),
    ("12", "12 x"),
    ("12", "12 NV"),
    ("12", "13 N"),
    ("12 N", "12 V"),
    (r"12\text{ N}", "12 J"),
    ("3x", "3 N"),
    *[(r"\frac{3}{2}", each) for each in ("2:3", "6:4", "3:2:1")],
    (r"\frac{3}{2}\text{ cm}", "3:2"),
    ("2", "2:1"),
    ("6", "6:1"),
    (r"\frac{a}{b}", "b:a"),
    *[("(1,2)", each) for each in ("A(2,1)", "A(1,2,3)", "f(1,2)", "A[1,2]", "2(1,2)", "AB(1,2)")],
    ("A(1,2)", "B(1,2)"),
    ("A(1,2), B(3,4)", "A(3,4), B(1,2)"),
    ("3", "A(1,2)"),
    ("1/2", "¼"),
    ("2/2", "2½"),
    ("x^2", "x³"),
    ("x^2", "x2"),
    ("x_2", "x²"),
    ("102", "10²"),
    ("(-2,2)", r"x<-2\text{ and }x>2"),
    ("(-2,2)", r"x<2\text{ and }y>-2"),
    ("(-2,2)", r"x<2\text{ or }x>-2"),
    ("(-2,2)", r"x\le2\text{ and }x>-2"),
    (r"x<-2\text{ or }x>2", r"x<-2\text{ and }x>2"),
    (r"\{x\mid x\ge2\}", r"\{y\mid x\ge2\}"),
    (r"\{x\mid x\ge2\}", r"\{y\mid y>2\}"),
    (r"x\ge2", r"y\ge2"),
]


@pytest.mark.parametrize(("gold", "box"), RIGHT)
def test_another_spelling_is_right(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(("gold", "box"), WRONG)
def test_what_looks_alike_is_wrong(gold: str, box: str) -> None:
    assert grade_answer(boxed(gold), gold + " ").correct
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("boxes", "votes"),
    [
        ([r"\text{No}", "No", "no"], 1),
        (["no", "on"], 2),
        (["12", "12 N", r"12\text{ N}"], 1),
        (["12 N", "12 V"], 2),
        (["½", "1/2", r"\frac12"], 1),
        (["x²", "x^2", "x^{2}"], 1),
        (["A(1,2)", "(1,2)"], 1),
        (["A(1,2)", "B(1,2)"], 2),
        ([r"\{x\mid x\ge2\}", r"\{y\mid y\ge2\}", r"[2,\infty)"], 1),
        ([r"x<2\text{ and }x>-2", "(-2,2)", "-2<x<2"], 1),
    ],
)
def test_other_spellings_share_a_vote(boxes: list[str], votes: int) -> None:
    said = [MathGrader().answer([recorded(action=boxed(box))]) for box in boxes]
    assert len(set(pooled(said))) == votes, said
