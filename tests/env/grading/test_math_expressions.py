"""Text beside an expression: units, and what would change its value."""

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
