"""Units and texts beside an expression, and what algebra would overlook in it."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        (r"\sqrt2", r"\sqrt2\text{3}"),
        (r"\sqrt2", r"\sqrt2\text{/2}"),
        (r"\sqrt2", r"\sqrt2\text{ + 1}"),
        (r"\sqrt2", r"\sqrt2\text{ times 3}"),
        (r"2\pi", r"2\pi\text{ - 1}"),
        (r"2\pi", r"2\pi\text{5}"),
        (r"2\pi", r"2\pi\text{ percent}"),
        (r"x+1", r"x+1\text{ + 5}"),
        (r"(\sqrt2,1)", r"(\sqrt2\text{ + 1},1)"),
        (r"[0,\pi)", r"[0,\pi\text{5})"),
    ],
)
def test_text_in_an_expression_changes_no_value_unseen(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        (r"2\pi\text{ cm}", r"2\pi\text{ cm}"),
        (r"2\pi", r"2\pi\text{ cm}"),
        (r"\sqrt2\text{ square-units}", r"\sqrt2"),
        (r"144\pi", r"144\pi\text{ cubic inches}"),
        (r"144\pi", r"144\pi\text{ cm}^2"),
        (r"144\pi", r"144\pi\text{ cm^2}"),
        (r"144\pi", r"144\pi\text{ cm2}"),
        (r"144\pi\text{ ft^{3}}", r"144\pi"),
        (r"3\sqrt2", r"3\sqrt2\text{ m/s}"),
        (r"3\sqrt2", r"3\sqrt2\text{ kg m/s^2}"),
    ],
)
def test_units_of_an_expression_may_be_missing(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        (r"144\pi\text{ cm}^3", r"144\pi\text{ m}^3"),
        (r"144\pi\text{ cm}^3", r"144\pi\text{ cm}^2"),
        (r"144\pi\text{ cm}^3", r"144\pi\text{ cm}"),
        (r"144\pi\text{ cm}^3", r"144\pi m^3"),
        (r"10\sqrt{3}\text{ feet}", r"10\sqrt{3}\text{ miles}"),
        (r"10\sqrt{3}\text{ feet}", r"10\sqrt{3} miles"),
        (r"10\sqrt{3}\mathrm{~cm}", r"10\sqrt{3}\mathrm{~m}"),
        (r"\$3\sqrt2", r"3\sqrt2\text{ cents}"),
        (r"3\sqrt2\text{ cents}", r"\$3\sqrt2"),
        (r"\$3\sqrt2", r"€3\sqrt2"),
        (r"\sqrt4\text{ cm}", r"2\text{ m}"),
        (r"(\sqrt2\text{ cm}, 1)", r"(\sqrt2\text{ m}, 1)"),
        (r"x=\sqrt2\text{ cm}", r"\sqrt2\text{ m}"),
        (r"2\pi", r"2\pi^\circ"),
        (r"2\pi", r"2\pi\text{ degrees}"),
        (r"\frac{\pi}{3}", r"\frac{\pi}{3}^\circ"),
        (r"\frac{\pi}{3}\text{ rad}", r"\frac{\pi}{3}^\circ"),
        (r"\tan 20", r"\tan 20^\circ"),
        (r"\sqrt2\text{ million}", r"\sqrt2\text{ thousand}"),
        (r"x^2\text{ if }x>0", r"x^2\text{ if }x>1"),
        (r"x^2\text{ if }x>0", "x^2"),
        ("x^2", r"x^2\text{ if }x>0"),
        (r"\operatorname{foo}(x)", r"\operatorname{bar}(x)"),
    ],
)
def test_a_unit_or_a_text_that_contradicts_the_golds_is_wrong(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct
    assert grade_answer(boxed(gold + " "), gold).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        (r"144\pi\text{ cm}^3", r"144\pi\text{ cubic centimeters}"),
        (r"144\pi\text{ cm}^3", r"144\pi cm^3"),
        (r"144\pi\text{ cm}^3", r"144\pi\ \mathrm{cm}^{3}"),
        (r"144\pi\text{ cm}^3", r"48\cdot3\pi\text{ cm}^3"),
        (r"144\pi\text{ cm}^3", r"144\pi\text{ units}^3"),
        (r"10\sqrt{3}\text{ feet}", r"10\sqrt{3} ft"),
        (r"10\sqrt{3}\text{ m}", r"10\sqrt{3} m"),
        (r"\$3\sqrt2", r"3\sqrt2\text{ dollars}"),
        (r"\$3\sqrt2\text{ per hour}", r"3\sqrt2\text{ dollars/hour}"),
        (r"\sqrt2^\circ", r"\sqrt2"),
        (r"\sqrt2", r"\sqrt2^\circ"),
        (r"\frac{180}{\pi}", r"\frac{180}{\pi}^\circ"),
        (r"\frac{\pi}{3}", r"\frac{\pi}{3}\text{ radians}"),
        (r"\tan 20^\circ", r"\tan(20°)"),
        (r"\sqrt2\text{ million}", r"1000000\sqrt2"),
        (r"x=\sqrt2\text{ cm}", r"\sqrt2"),
        (r"\sqrt2\text{ cm}", r"AB=\sqrt2\text{ cm}"),
        (r"3x+2\text{ dollars}", r"\$3x+2"),
        (r"\operatorname{arcsin}(x)", r"\arcsin x"),
        (r"\sin x", r"\text{sin}(x)"),
        (r"1+2i", r"1+2\mathrm{i}"),
    ],
)
def test_a_unit_or_a_function_may_be_spelled_otherwise(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct
    assert grade_answer(boxed(gold), box).correct


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\sqrt2", r"\sqrt2\mod 3"),
        (r"\sqrt2", r"\sqrt2\ldots"),
        (r"\sqrt2", r"\sqrt2\phantom{x}3"),
        (r"\sqrt2", r"\sqrt2'"),
        (r"\pi r^2", r"\pi r^2h"),
        (r"\pi r^{2}", r"\pi r^{2}h"),
        (r"\sqrt{2}", r"\sqrt{2}m"),
        ("x+1", "x+1 more"),
        ("2x", "2x th"),
        (r"\frac{r}{R}", "1"),
        ("R-r", "r-R"),
        ("A+1", "a+1"),
        ("A^T", "A"),
        ("2^T", "2"),
        ("x'y", "xy"),
        ("x'y", "xy'"),
        ("x_1'", "x_1"),
        ("f'(2)+1", "f(2)+1"),
        (r"\theta'+1", r"\theta+1"),
    ],
)
def test_every_letter_and_mark_counts(one: str, other: str) -> None:
    assert not grade_answer(boxed(one), other).correct
    assert not grade_answer(boxed(other), one).correct


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\pi r^2h", r"h\pi r^{2}"),
        ("x'y", "yx'"),
        ("2x'", "x'+x'"),
        ("x_1'", "x'_1"),
        (r"f^{\prime\prime}(x)+1", "1+f''(x)"),
        ("A^T", r"A^{\top}"),
        ("x′", "x'"),
        (r"x ^{\prime}+r c", "x'+rc"),
        (r"A\cap B", r"A \cap B"),
    ],
)
def test_marks_may_be_spelled_and_factors_ordered_otherwise(one: str, other: str) -> None:
    assert grade_answer(boxed(one), other).correct
    assert grade_answer(boxed(other), one).correct
