"""What a majority counts as one answer."""

from __future__ import annotations

import random

import pytest

from mappa_env.grading.math import MathGrader, grade_answer
from mappa_env.grading.votes import pooled
from mappa_env.statistics.repeats import majority
from recorded import recorded


def votes(boxes: list[str]) -> list[str | None]:
    said = [MathGrader().answer([recorded(action=rf"\boxed{{{box}}}")]) for box in boxes]
    return pooled(said)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"6\text{ m}", r"6\text{ km}"),
        (r"6\text{ cm}^2", r"6\text{ cm}^3"),
        (r"6\text{ cm}", r"6\text{ cm}^2"),
        (r"3:15\text{ a.m.}", r"3:15\text{ p.m.}"),
        (r"\$5", r"5\text{ cents}"),
        (r"12\%", r"12\text{ cm}"),
        (r"3\sqrt2\text{ m}", r"3\sqrt2\text{ km}"),
        (r"3\sqrt2\text{ m}", r"\$3\sqrt2"),
        ("x>1", "z>1"),
        (r"0<x\le1", r"0<t\le1"),
        ("y=2x", "z=2x"),
        ("(B) 12", "(C) 12"),
        (r"5\text{ red balls}", r"5\text{ blue balls}"),
        (r"6\text{ m}, 7\text{ m}", r"6\text{ m}, 7\text{ km}"),
        (r"30^\circ\text{C}", r"30^\circ\text{F}"),
        (r"\frac24\text{ m}", r"\frac24\text{ km}"),
        (r"\frac{\pi}{2}", r"\frac{\pi}{2}^\circ"),
    ],
)
def test_answers_that_contradict_each_other_are_two_votes(one: str, other: str) -> None:
    first, second = votes([one, other])
    assert first != second


@pytest.mark.parametrize(
    "boxes",
    [
        ["6", r"6\text{ m}", r"6\text{ meters}", "6 m"],
        ["x>1", r"(1, \infty)", "1 < x"],
        ["y=2x", "2x", r"y = 2x"],
        ["12", "(C) 12", r"12\text{ (C)}", r"12\text{ cm}"],
        [r"5\text{ balls}", r"5\text{ red balls}"],
        [r"1\text{ cm}, 2\text{ cm}", "2, 1"],
        ["12", r"12\%"],
        ["90", r"90^\circ"],
        [r"3:15\text{ pm}", "3:15", r"3:15\text{ p.m.}"],
    ],
)
def test_what_one_answer_leaves_open_does_not_split_votes(boxes: list[str]) -> None:
    assert len(set(votes(boxes))) == 1


def test_a_bare_number_counts_with_the_commonest_unit() -> None:
    found = votes(["6", r"6\text{ m}", r"6\text{ km}", r"6\text{ km}", "6"])
    assert found == ["6‹km›", "6‹m›", "6‹km›", "6‹km›", "6‹km›"]


def test_of_two_as_common_it_counts_with_the_first() -> None:
    assert votes([r"6\text{ km}", "6", r"6\text{ m}"]) == ["6‹km›", "6‹km›", "6‹m›"]
    assert votes(["6", r"6\text{ m}", r"6\text{ km}"]) == ["6‹m›", "6‹m›", "6‹km›"]


def test_a_majority_in_one_unit_is_not_outvoted_by_two() -> None:
    boxes = [r"6\text{ m}"] * 2 + [r"6\text{ km}"] * 2 + ["7"] * 3
    right = [grade_answer(rf"\boxed{{{box}}}", r"6\text{ km}").correct for box in boxes]
    assert majority(list(zip(votes(boxes), right, strict=True))) == (0.0, False)


def test_votes_without_marks_stay_as_they_are() -> None:
    before = ["7", None, "1/2", "7", "(1, 2)", "a > b"]
    assert pooled(before) == before
    assert pooled([]) == []


def test_right_answers_share_a_vote_unless_they_contradict_each_other() -> None:
    for gold in (r"6\text{ km}", "6", r"x>1", r"(1,\infty)"):
        boxes = ["6", r"6\text{ km}", "6 km", r"6\text{ m}", "x>1", r"(1,\infty)", "z>1", "7"]
        random.Random(gold).shuffle(boxes)
        said = votes(boxes)
        right = {
            vote: box
            for box, vote in zip(boxes, said, strict=True)
            if grade_answer(rf"\boxed{{{box}}}", gold).correct
        }
        assert len(right) <= 2
