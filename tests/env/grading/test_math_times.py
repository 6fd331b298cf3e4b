"""Times and ratios; and arguments of LaTeX's commands without braces."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("1:05", "1:5"),
        ("1:05", r"\frac15"),
        ("1:05", "0.2"),
        ("2:00", "2:0"),
        ("2:09", r"\frac{2}{9}"),
        (r"10:09\text{ a.m.}", "10:9"),
    ],
)
def test_minutes_after_a_zero_are_no_part_of_a_ratio(gold: str, box: str) -> None:
    assert grade_answer(boxed(gold), gold).correct
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("3:4", r"\frac34"),
        ("3:4", r"3\text{ to }4"),
        (r"10:09\text{ a.m.}", "10:09"),
        (r"\frac{\pi}{2}", r"\frac\pi2"),
        (r"\frac{\pi}{2}", r"\dfrac\pi{2}"),
        (r"\frac{\pi}{2}", r"\frac \pi 2"),
        (r"\frac{1}{\pi}", r"\frac1\pi"),
        (r"\frac{\sqrt{3}}{\pi}", r"\frac{\sqrt3}\pi"),
        (r"4\sqrt{\pi}", r"4\sqrt\pi"),
        (r"(3,\frac{\pi}{2})", r"\left(3,\frac\pi2\right)"),
    ],
)
def test_honest_spellings(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct
