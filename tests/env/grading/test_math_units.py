"""Units, signs and nouns at a number: which agree with the gold, and which are no unit."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer

UNITS_OF_12 = [
    *["apples", "square inches", "in", "min", "sec", "m/s", "students in a row", "ways", "L", "dollars", "N"],
    *["miles per hour", "cents", "degrees", "cm squared", "square units", "kg m/s^2", "positive integers"],
]


@pytest.mark.parametrize("unit", UNITS_OF_12)
def test_units_may_follow_a_number(unit):
    assert grade_answer(boxed(rf"12\text{{ {unit}}}"), "12").correct
    assert grade_answer(boxed("12"), rf"12\text{{ {unit}}}").correct


CONTRADICTIONS = [
    (r"5\text{ cents}", r"\$5"),
    (r"5\text{ euros}", r"\$5"),
    ("€5", r"\$5"),
    (r"5\text{ apples}", r"\$5"),
    (r"5\text{ cents}", r"5\text{ dollars}"),
    (r"5\%", r"\$5"),
    (r"\$5", r"5\text{ cents}"),
    (r"30\text{ radians}", r"30^\circ"),
    (r"30\text{ rad}", r"30^\circ"),
    (r"30\text{ cm}", r"30^\circ"),
    (r"30\text{ radians}", r"30\text{ degrees}"),
    (r"30^\circ F", r"30^\circ C"),
    (r"30\text{ degrees Fahrenheit}", r"30^\circ\text{C}"),
    (r"12\text{ cm}", r"12\%"),
    (r"12\%", r"12\text{ cm}"),
    (r"5\text{ cents}", r"\$5\text{ per hour}"),
    (r"\$5\text{ cents}", "5"),
    (r"30\%", r"30^\circ"),
    (r"\$30", r"30^\circ"),
    ("5 minutes", "5 hours"),
    ("1,000 cents", r"\$1,000"),
    ("30 minutes", r"30^\circ"),
    (r"(5\text{ cents}, 6\text{ cents})", r"(\$5, \$6)"),
]


UNITS_AND_SIGNS = [
    ("5", r"\$5"),
    (r"\$5", "5"),
    (r"5\text{ dollars}", r"\$5"),
    (r"\text{\$}5", r"\$5"),
    (r"\text{\$}12", "12"),
    (r"\text{\$12}", "12"),
    (r"\$12", "12"),
    (r"-\$12", "-12"),
    (r"\$-12", "-12"),
    (r"\$5.00", r"\$5"),
    ("5000000", r"\$5\text{ million}"),
    (r"\$5\text{ million}", r"5000000 \text{ dollars}"),
    (r"5\text{ USD}", r"\$5"),
    (r"5\text{ dollars per hour}", r"\$5"),
    (r"5\text{ dollars per hour}", r"\$5\text{ per hour}"),
    (r"\$5\text{ per hour}", r"\$5"),
    (r"5\text{ pounds}", "£5"),
    (r"5\text{ lb}", r"5\text{ pounds}"),
    ("30", r"30^\circ"),
    (r"30^\circ", "30"),
    (r"30\text{ degrees}", r"30^\circ"),
    (r"30^\circ\text{C}", r"30^\circ C"),
    (r"30\text{ degrees Celsius}", r"30^\circ\text{C}"),
    (r"30^\circ\text{C}", r"30^\circ"),
    (r"12\%", "12"),
    (r"12\%", "0.12"),
    (r"100\%", "1"),
    (r"100\%", "100"),
    (r"30\text{ radians}", "30"),
    (r"12\text{ cents}", "12"),
    ("1000.99", r"\$1,000.99"),
    (r"\$1,000.99", "1000.99"),
    (r"\sqrt{2}", r"\$\sqrt{2}"),
    (r"\$\sqrt{2}", r"\sqrt{2}"),
    (r"0.\dot{3}", "1/3"),
    (r"0.1\dot{6}", "1/6"),
    (r"0.\bar{3}", "1/3"),
    ("1/3", r"0.\dot3"),
    ("(5,6)", r"(\$5, \$6)"),
    (r"(\$5, \$6)", "(5,6)"),
    ("5, 6", r"\$5, \$6"),
    (r"\$5, \$6", "5, 6"),
    (r"x=\$5", "5"),
    (r"\$\frac12", r"\$0.50"),
    ("x+1", r"\$x+1"),
    ("5", "$5$"),
    ("$5", "5"),
    (r"5\$", "5"),
    (r"5\$", r"\$5"),
    (r"15\text{ dollars.}", r"\$15"),
    ("12 percent", r"12\%"),
    (r"\$x+5", "x+5"),
    ("5°", "5"),
    (r"\$2\frac12", "2.5"),
    ("12000", r"\$12{,}000"),
    ("10°", r"10^\circ"),
    (r"0.\dot{1}4285\dot{7}", r"\frac17"),
]


@pytest.mark.parametrize(("box", "gold"), CONTRADICTIONS)
def test_a_unit_that_contradicts_the_golds_is_wrong(box, gold):
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(("box", "gold"), UNITS_AND_SIGNS)
def test_a_unit_may_be_missing_or_spelled_otherwise(box, gold):
    assert grade_answer(boxed(box), gold).correct


NO_NOUNS = [
    *[
        "gross",
        "score",
        "lakh",
        "lakhs",
        "crore",
        "crores",
        "twelfths",
        "twentieths",
        "thirteenths",
        "basis points",
        "ppm",
        "ppb",
        "reciprocal",
        "inverse",
        "opposite",
        "the opposite",
        "complement",
        "conjugate",
        "repeating",
        "recurring",
        "hex",
        "in hex",
        "binary",
        "in binary",
        "octal",
        "decimal",
        "unless",
        "otherwise",
        "unless x is 3",
        "fold",
        "tenfold",
        "-fold",
        "so",
        "then",
        "hence",
        "myriad",
        "mil",
        "bn",
        "quadrillion",
        "octillion",
        "zillion",
        "percent of 5",
        "per mille",
        "per hundred",
        "bps",
        "rounded",
        "halved",
        "doubled",
        "transpose",
        "cube",
        "square",
        "square root",
        "roots of",
        "half-dozen",
        "tens",
        "ones complement",
        "times ten",
        "and up",
        "or so",
        "or fewer",
        "up",
        "off",
        "short",
        "extra",
        "not",
        "at most",
        "if possible",
        "maybe",
        "base ten",
        "modulo 5",
        "a half",
        "and one third",
        "score and ten",
        "inverse of",
        "opposite in sign",
        "in reverse",
        "million dollars",
        "k",
        "e3",
        "grand",
        "halves",
        "per million",
    ],
]


NOUNS = [
    *[
        "pairs",
        "pairs of socks",
        "couples",
        "quarters",
        "scores",
        "additional games",
        "extra coins",
        "missing tiles",
        "apples",
        "ways",
        "square inches",
        "ordered pairs",
        "integers",
        "positive integers",
        "months",
        "paths",
        "births",
        "teeth",
        "miles per hour",
        "cents",
        "degrees",
        "unit cubes",
        "squares",
        "inverse functions",
        "binary strings",
        "decimal places",
        "binary digits",
        "students",
        "people",
        "men",
        "women",
        "children",
        "boys",
        "girls",
        "points",
        "triangles",
        "minutes",
        "seconds",
        "hours",
        "days",
        "weeks",
        "years",
        "cups",
        "gallons",
        "pounds",
        "ounces",
        "acres",
        "km/h",
        "cm^3",
        "cm^2",
        "m^2",
        "square feet",
        "cubic meters",
        "J",
        "N",
        "W",
        "watts",
        "joules",
        "volts",
        "radians",
        "games",
        "marbles",
        "balls",
        "words",
        "letters",
        "digits",
        "solutions",
        "zeros",
        "roots",
        "edges",
        "vertices",
        "faces",
        "sides",
        "percent",
        "ft",
        "yards",
        "yd",
        "mph",
        "lattice points",
        "opposite sides",
        "widths",
        "lengths",
        "depths",
        "tickets",
        "boxes",
        "books",
        "fish",
        "oxen",
        "sheep",
        "possible values",
        "different colors",
        "times",
        "turns",
        "rounds",
        "steps",
        "inches tall",
        "years old",
        "kilometers per hour",
        "dollars per hour",
        "red balls",
        "complementary pairs",
        "perfect squares",
        "perfect cubes",
        "units",
        "sq units",
        "sq. cm",
        "seats in a row",
        "friends",
        "movies",
        "cm each",
        "handshakes",
        "arrangements",
        "subsets",
        "permutations",
        "committees",
        "distinct integers",
        "liters",
        "mL",
        "kg",
        "g",
        "mg",
        "tons",
        "feet per second",
        "m/s",
        "m/s^2",
        "rpm",
        "Hz",
        "kHz",
        "amps",
        "ohms",
        "moles",
        "cookies",
        "pages",
        "dimes",
        "nickels",
        "pennies",
        "coins",
        "rows",
        "columns",
        "cells",
        "tiles",
        "sheets",
        "routes",
        "nonzero terms",
        "terms",
        "cards",
        "dots",
        "edges total",
        "in total",
        "total",
        "altogether",
        "each",
        "per day",
        "a day",
        "left",
        "remaining",
        "units^2",
        "square units",
    ],
]


SIGNS = [
    ("6 cents", "6¢"),
    ("6", "6¢"),
    (r"6\text{ cents}", r"\text{6¢}"),
    ("7 feet", "7'"),
    (r"2.5\text{ ft}", "2.5'"),
    (r"12\text{ inches}", "12''"),
    (r"12\text{ inches}", '12"'),
    ("5 feet 4 inches", "5'4''"),
    (r"5\text{ ft }4\text{ in}", "5' 4\""),
    (r"5\text{ ft }4\frac12\text{ in}", r"5'4\frac{1}{2}''"),
    ("6, 7", "6', 7'"),
    (r"15\%", r"15\text{\%}"),
    ("0.15", r"15\mathrm{\%}"),
    ("12 days", r"12\text{-day}"),
    ("12", r"\text{12-day}"),
    (r"3\text{ m}", r"3\text{-meter}"),
    (r"25\text{ K}", r"25\text{K}"),
    (r"25\text{ kelvin}", r"25\text{K}"),
    ("25", r"25\text{ K}"),
    ("12", r"\large 12"),
    ("12", r"{\footnotesize 12}"),
    (r"\sqrt2", r"\Huge\sqrt2"),
]
OTHER_SIGNS = [
    (r"\$6", "6¢"),
    ("7¢", "6¢"),
    ("7 inches", "7'"),
    ("7 feet", "7''"),
    ("4 feet 5 inches", "5'4''"),
    ("54", "5'4''"),
    ("x_1", "x_1'"),
    ("f(2)", "f'(2)"),
    (r"16\%", r"15\text{\%}"),
    (r"12\text{ hours}", r"12\text{-day}"),
    *[("12", rf"12\text{{{each}}}") for each in ("-fold", "-x", "-1", "-ish", "-m")],
    ("12", "12-day"),
    ("25", r"25\text{K}"),
    ("25000", r"25\text{K}"),
    (r"\$25", r"\$25\text{K}"),
    ("25", r"25\text{K people}"),
    (r"26\text{K}", r"25\text{K}"),
    ("12", r"\larger 12"),
]


@pytest.mark.parametrize(("gold", "box"), SIGNS)
def test_signs_hyphens_and_sizes_say_what_words_say(gold, box):
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(("gold", "box"), OTHER_SIGNS)
def test_signs_that_say_something_else_are_wrong(gold, box):
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize("words", NO_NOUNS)
def test_words_that_multiply_deny_or_operate_are_no_unit(words):
    assert not grade_answer(boxed(rf"12\text{{ {words}}}"), "12").correct
    assert not grade_answer(boxed(f"12 {words}"), "12").correct


@pytest.mark.parametrize("words", NOUNS)
def test_what_is_counted_or_measured_may_be_any_noun(words):
    assert grade_answer(boxed(rf"12\text{{ {words}}}"), "12").correct


@pytest.mark.parametrize(
    ("box", "gold"), [(r"1\text{ gross}", "144"), (r"2\text{ score}", "40"), ("3 lakh", "300000")]
)
def test_old_and_far_words_multiply(box, gold):
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("degrees", "radians"),
    [
        (r"60^\circ", r"\frac{\pi}{3}"),
        (r"-150^\circ", r"-\frac{5\pi}{6}"),
        (r"90\text{ degrees}", r"\pi/2"),
        (r"22.5^\circ", r"\frac{\pi}{8}\text{ rad}"),
    ],
)
def test_degrees_are_their_radians(degrees: str, radians: str) -> None:
    assert grade_answer(boxed(degrees), radians).correct
    assert grade_answer(boxed(radians), degrees).correct


@pytest.mark.parametrize(
    ("gold", "box"),
    [
        ("60", r"\frac{\pi}{3}"),
        (r"\frac{\pi}{3}", "60"),
        (r"60^\circ", r"\frac{\pi}{6}"),
        (r"60^\circ", r"\frac{\pi}{3}^\circ"),
        (r"60^\circ", r"\frac{\pi}{3}\text{ cm}"),
        (r"2\pi", r"2\pi^\circ"),
        (r"60^\circ", r"\frac{1}{\pi}"),
    ],
)
def test_a_number_without_degrees_is_no_angle(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct
