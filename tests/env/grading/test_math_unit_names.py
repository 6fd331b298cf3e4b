"""Spellings of units that are one unit, and units that are not."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer

SAME = [
    *[("hours", each) for each in ("hour", "hrs", "hr", "h", "hrs.")],
    *[("mph", each) for each in ("miles per hour", "mi/h", "miles/hour", "miles an hour", "mi/hr")],
    *[("km/h", each) for each in ("kilometers per hour", "kph", "km/hr", "kmph", "km per hour")],
    *[("m/s", each) for each in ("meters per second", "m/sec", "metres/second")],
    *[("m/s^2", each) for each in ("meters per second squared", "meters per second per second", "m/s²")],
    *[("years old", each) for each in ("years", "yrs", "year", "yr")],
    *[("points", each) for each in ("pts", "point", "pts.")],
    *[("people", each) for each in ("person", "persons")],
    *[
        ("apples", each)
        for each in ("apples in total", "total apples", "apples altogether", "apple", "red apples")
    ],
    *[("square feet", each) for each in ("sq ft", "sq. ft.", "ft^2", "ft²", "ft2", "ft^{2}", "feet squared")],
    *[("cubic inches", each) for each in ("cu in", "in^3", "cubic in")],
    ("inches tall", "in."),
    ("boxes", "box"),
    ("cities", "city"),
    ("cookies", "cookie"),
    ("classes", "class"),
    ("quizzes", "quiz"),
    ("waltzes", "waltz"),
    ("gases", "gas"),
    ("lenses", "lens"),
    ("buses", "bus"),
    ("houses", "house"),
    ("prizes", "prize"),
    ("leaves", "leaf"),
    ("women", "woman"),
    ("vertices", "vertex"),
    ("weeks", "wks"),
    ("gallons", "gal"),
    ("pounds", "lbs"),
    ("yards", "yd"),
    ("milliliters", "mL"),
    ("newtons", "N"),
    ("kilowatts", "kW"),
    ("ways", "different ways"),
    ("cups of flour", "cups"),
    ("kilos", "kg"),
    ("a.m.", "AM"),
    ("B.C.", "BCE"),
    ("dollars per hour", "dollars an hour"),
]
OTHER = [
    ("hours", "minutes"),
    ("mph", "km/h"),
    ("mph", "miles"),
    ("mph", "hours"),
    ("m/s", "m/s^2"),
    ("square feet", "feet"),
    ("square feet", "cubic feet"),
    ("miles", "nautical miles"),
    ("years", "light years"),
    ("red balls", "blue balls"),
    ("students", "student tickets"),
    ("pairs of socks", "socks"),
    ("points", "pennies"),
    ("apples", "oranges"),
    ("apples", "boxes"),
    ("gases", "gates"),
    ("lenses", "lemons"),
    ("quizzes", "questions"),
    ("buses", "busts"),
    ("am", "pm"),
    ("a.m.", "P.M."),
    ("BC", "AD"),
    ("N", "W"),
    ("kg", "g"),
    ("dollars per hour", "dollars per day"),
]
NO_UNIT = [
    *["nope", "nah", "ish", "-ish", "kilo", "mega", "milli", "inv", "times 3", "times 2"],
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_unit_agree(one: str, other: str) -> None:
    for gold, box in ((one, other), (other, one)):
        for value in ("12", r"3\sqrt{2}"):
            assert grade_answer(boxed(rf"{value}\text{{ {box}}}"), rf"{value}\text{{ {gold}}}").correct


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_units_contradict(one: str, other: str) -> None:
    for gold, box in ((one, other), (other, one)):
        assert not grade_answer(boxed(rf"12\text{{ {box}}}"), rf"12\text{{ {gold}}}").correct
        assert not grade_answer(
            boxed(rf"3\sqrt{{2}}\text{{ {box}}}"), rf"3\sqrt{{2}}\text{{ {gold}}}"
        ).correct


@pytest.mark.parametrize("words", NO_UNIT)
def test_words_that_deny_or_change_a_number_are_no_unit(words: str) -> None:
    assert not grade_answer(boxed(rf"7\text{{ {words}}}"), "7").correct
    assert not grade_answer(boxed(rf"3\sqrt{{2}}\text{{ {words}}}"), r"3\sqrt{2}").correct


@pytest.mark.parametrize(
    "box",
    [
        r"12\ \frac{\text{m}}{\text{s}}",
        r"12\,\text{m}/\text{s}",
        r"12\text{ m}/\text{s}",
        r"12\frac{\text{ meters}}{\text{second}}",
    ],
)
def test_a_rate_may_be_a_fraction_of_units(box: str) -> None:
    assert grade_answer(boxed(box), r"12\text{ m/s}").correct
    assert grade_answer(boxed(box.replace("12", r"\sqrt{2}")), r"\sqrt{2}\text{ m/s}").correct
    assert not grade_answer(boxed(box), r"12\text{ m}").correct
