"""Ratios, times, remainders and several units: values that are compared one by one, in order."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        *[("3:15", each) for each in ("6:30", "1:5", "15:3", r"\frac{1}{5}", "0.2", "3", "3:15:1", "3.25")],
        ("12:30", "6:15"),
        ("1:2:3", "1:6"),
        ("1:2:3", "3:2:1"),
        ("1:2", "2:1"),
        ("1:2", "0.51"),
        (r"1:\sqrt2", r"\sqrt2:1"),
        (r"3:15\text{ p.m.}", r"3:15\text{ a.m.}"),
        (r"7\text{ am}", r"7\text{ pm}"),
        (r"30^\circ\text{ N}", r"30^\circ\text{ S}"),
        (r"30^\circ\text{ N}", r"30^\circ W"),
        (r"30^\circ\text{ N}", r"31^\circ\text{ N}"),
        (r"500\text{ BC}", r"500\text{ AD}"),
        (r"5\text{ to }4", r"4\text{ to }5"),
        (r"5\text{ to }4", "20"),
        (r"2\text{ R }3", r"3\text{ R }2"),
        ("2 R 3", "3 R 2"),
        (r"2\text{R}3", "6R"),
        (r"2\text{ remainder }3", "6"),
        (r"5\text{ ft }4\text{ in}", r"4\text{ ft }5\text{ in}"),
        (r"5\text{ ft }4\text{ in}", "20"),
        (r"3\text{ hours }20\text{ minutes}", r"20\text{ hours }3\text{ minutes}"),
        (r"3\text{ hours }20\text{ minutes}", r"3\text{ hours }20\text{ seconds}"),
    ],
)
def test_the_parts_are_not_divided_multiplied_or_swapped(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct
    assert grade_answer(boxed(gold), gold + " ").correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("3:15", r"3:15\text{ p.m.}"),
        ("3:15", "03:15"),
        *[
            (r"3:15\text{ p.m.}", each)
            for each in ("3:15", r"3\!:\!15\text{ PM}", "3:15 PM", r"3{:}15\ \text{pm}")
        ],
        (r"3:15\text{ p.m.}", r"\text{3:15 p.m.}"),
        (r"\text{3:15 p.m.}", "3:15"),
        (r"7\text{ am}", r"7\text{ a.m.}"),
        (r"7\text{ am}", "7"),
        *[
            ("2:3", each)
            for each in (r"\frac{2}{3}", "2/3", r"2\text{ to }3", r"\text{2 to 3}", "2 : 3", "AB:CD=2:3")
        ],
        (r"2\text{ to }3", "2:3"),
        (r"1:\sqrt2", r"1:\sqrt{2}"),
        (r"1:\sqrt2", r"\frac{\sqrt2}{2}"),
        ("a:b", "a:b"),
        (r"30^\circ\text{ N}", r"30^\circ N"),
        (r"30^\circ\text{ N}", r"30^\circ\text{ north}"),
        (r"30^\circ\text{ N}", r"30^\circ"),
        (r"500\text{ BC}", r"500\text{ B.C.}"),
        (r"2\text{ R }3", r"2\text{ remainder }3"),
        (r"2\text{ R }3", "2R3"),
        (r"5\text{ ft }4\text{ in}", r"5\text{ feet }4\text{ inches}"),
        (r"5\text{ ft }4\text{ in}", r"5\text{ feet and }4\text{ inches}"),
        (r"5\text{ ft }4\text{ in}", r"5\text{ ft, }4\text{ in}"),
    ],
)
def test_the_parts_may_be_spelled_otherwise(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


TEXTS = [
    *[
        (r"1\text{ hour }20\text{ minutes}", each)
        for each in (
            *(r"\text{1 hour and 20 minutes}", r"\text{1 hour 20 minutes}", r"\text{1 hr 20 min}"),
            *(r"1\text{ h }20\text{ min}", "1 hour and 20 minutes", "1 hour 20 minutes", "1 h 20 min"),
        )
    ],
    (r"\text{1 hour and 20 minutes}", r"1\text{ hour and }20\text{ minutes}"),
    (r"\text{2 dozen and 3}", r"\text{2 dozen and 3}"),
    ("7, -2", r"\text{7 and -2}"),
    ("7, -2", r"\text{-2, 7}"),
    ("7, 8, 9", r"\text{7, 8, and 9}"),
    ("1, 2, 3", r"1\text{, }2\text{, }3"),
    ("1000", r"1\text{,}000"),
    (r"\text{June 20}", "June 20"),
    (r"\text{June 20}", r"\text{June }20"),
    ("June 20, 2024", r"\text{june 20, 2024}"),
    (r"\text{Room 5A}", r"\text{room 5a}"),
    (r"\text{25 to 30}", "25:30"),
    ("3:15", r"\text{3:15 p.m.}"),
]
OTHER_TEXTS = [
    (r"1\text{ hour }20\text{ minutes}", r"\text{20 hours and 1 minute}"),
    (r"1\text{ hour }20\text{ minutes}", r"\text{1 hour and 20 seconds}"),
    (r"1\text{ hour }20\text{ minutes}", r"\text{not 1 hour and 20 minutes}"),
    *[
        ("7, -2", rf"\text{{{each}}}")
        for each in (
            *(
                "7 and not -2",
                "7 and -2 are wrong",
                "between 7 and -2",
                "7 and 2",
                "7 to -2",
                "neither 7 nor -2",
            ),
            *("7, -2 and 0", "7 minus -2", "sqrt 7 and -2"),
        )
    ],
    ("1, 2, 3", r"1\text{, }2\text{, }4"),
    (r"\text{June 20}", "June 21"),
    (r"\text{June 20}", "July 20"),
    (r"\text{June 20}", "20"),
    ("20", r"\text{June 20}"),
    (r"\text{Room 5A}", r"\text{Room 5B}"),
    ("5", r"\text{top 5}"),
    ("5", r"\text{at least 5}"),
    (r"\sin 20", "sin 21"),
]


@pytest.mark.parametrize(("gold", "box"), TEXTS)
def test_a_text_of_numbers_and_words_is_the_same_as_its_parts(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct
    assert grade_answer(boxed(gold), gold + " ").correct


@pytest.mark.parametrize(("gold", "box"), OTHER_TEXTS)
def test_a_text_of_other_numbers_or_words_is_wrong(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct
