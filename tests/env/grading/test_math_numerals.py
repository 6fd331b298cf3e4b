"""Numbers in words, decimals that go on, complex numbers in polar form, and inverse functions."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import MathGrader, grade_answer
from mappa_env.grading.number_words import spelled
from mappa_env.grading.votes import pooled
from recorded import recorded

CIS = r"6\text{cis }30^\circ"
RIGHT = [
    *[(r"\text{forty-two}", each) for each in ("42", "forty two", "Forty-Two", r"\text{forty-two}.")],
    *[(r"\text{one hundred and five}", each) for each in ("105", "one hundred five", "a hundred and five")],
    (r"\text{negative forty-two}", "-42"),
    (r"\frac{2}{3}", "two thirds"),
    *[(r"\frac{5}{3}", each) for each in (r"1.666\ldots", "1.666...", r"1.6666\dots", r"1.666\cdots")],
    *[(r"1.666\ldots", each) for each in (r"\frac53", r"1.\overline{6}", r"1.66666\ldots")],
    (r"\frac{4}{33}", r"0.121212\ldots"),
    (r"-\frac{1}{6}", r"-0.1666\ldots"),
    *[
        (CIS, each)
        for each in (
            r"3\sqrt3+3i",
            r"6\operatorname{cis}\frac{\pi}{6}",
            r"6\text{cis}\left(30^\circ\right)",
            r"6e^{i\pi/6}",
            r"6(\cos 30^\circ+i\sin 30^\circ)",
            r"6\text{ cis }390^\circ",
        )
    ],
    (r"\sqrt{2}\text{cis}45^\circ", "1+i"),
    (r"\text{cis }18^\circ, \text{cis }54^\circ", r"\text{cis }54^\circ, \text{cis}\frac{\pi}{10}"),
    ("f^{-1}(x)", "f^{-1} (x)"),
    ("(1,000)", "1000"),
    ("(1,234)", "(1, 234)"),
    (r"\frac{1}{x}", "x^{-1}"),
]
WRONG = [
    *[("42", each) for each in (r"\text{forty-two}", "forty two", "forty", "forty-two hundred")],
    *[(r"\text{forty-two}", each) for each in ("40", "2", "40, 2", "40 2", "24", "forty-twos", "fourteen")],
    *[(r"\text{one hundred and five}", each) for each in ("100, 5", "500", "one hundred fifty")],
    ("100, 5", r"\text{one hundred and five}"),
    ("25", r"\text{twenty-fifth}"),
    ("25", r"\text{twenty and five}"),
    *[
        (r"\frac{5}{3}", each)
        for each in (
            "1.666",
            r"1.66\ldots",
            r"1.667\ldots",
            r"1.666\ldots7",
            r"1.666\ldots, 2",
            r"1666\ldots",
        )
    ],
    *[(r"1.666\ldots", each) for each in ("1.666", "1.67", r"1.667\ldots", r"1.66\ldots")],
    ("1", r"0.999\ldots"),
    ("2", r"2.000\ldots"),
    ("e", r"2.718281828\ldots"),
    (r"\pi", r"3.1415926535\ldots"),
    *[
        (CIS, each)
        for each in (
            r"6\text{cis }30",
            r"6\text{cis }31^\circ",
            r"6\text{cis }-30^\circ",
            r"\text{cis }30^\circ",
            r"30^\circ",
            "6, 30",
            r"3\sqrt3-3i",
        )
    ],
    (r"\text{cis }198^\circ", r"\text{cis }198"),
    ("6", r"6\text{cis }0"),
    (r"\text{cis}\frac{\pi}{3}+1", r"\text{cis}\frac{\pi}{3}"),
    ("f^{-1}(x)", r"\frac{1}{f(x)}"),
    (r"\frac{1}{f(x)}", "f^{-1}(x)"),
    ("f^{-1}(x)", "g^{-1}(x)"),
    ("(1,000)", "(1,0)"),
    (r"\{12,050\}", r"\{12,50\}"),
]


@pytest.mark.parametrize(("gold", "box"), RIGHT)
def test_another_spelling_is_right(gold: str, box: str) -> None:
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(("gold", "box"), WRONG)
def test_what_looks_alike_is_wrong(gold: str, box: str) -> None:
    assert grade_answer(boxed(gold), gold + " ").correct
    assert not grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("ninety-nine", 99),
        ("two thousand three hundred and forty-five", 2345),
        ("nine hundred ninety-nine million nine hundred ninety-nine thousand and one", 999_999_001),
        ("two hundred and five thousand", 205_000),
        *[(text, None) for text in ("hundred", "zero hundred", "twelve hundred", "two hundred hundred")],
        *[(text, None) for text in ("one thousand and two hundred", "one thousand thousand", "forty-twelve")],
        *[
            (text, None)
            for text in ("and forty", "one hundred and", "forty and two", "two, three", "a forty-a")
        ],
        *[(text, None) for text in ("one hundred zero", "million one thousand", "thousand " * 13)],
    ],
)
def test_only_what_is_english_is_a_number_in_words(text: str, number: int | None) -> None:
    assert spelled(text) == (None if number is None else (number, 1))


def test_what_is_wrong_for_digits_has_a_vote_of_its_own() -> None:
    said = [MathGrader().answer([recorded(action=boxed(each))]) for each in ("42", "forty-two", "Forty two")]
    assert len(set(pooled(said))) == 2
