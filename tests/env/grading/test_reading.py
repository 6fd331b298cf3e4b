"""Reading the one answer of a text: the forms of answers, and what no text can do."""

from __future__ import annotations

import re
import time
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mappa_env.grading import reading

HALF = Fraction(1, 2)
VALUES = [
    ("14", 14),
    ("-3", -3),
    ("−3", -3),
    ("x = -3", -3),
    ("Fraction(3, 4)", Fraction(3, 4)),
    ("3/4", Fraction(3, 4)),
    ("2 1/2", Fraction(5, 2)),
    ("-2 1/2", Fraction(-5, 2)),
    ("0.5 (50%)", HALF),
    (".5", HALF),
    ("50%", 50),
    ("1,234", 1234),
    ("$12.50", Fraction(25, 2)),
    ("12 apples", 12),
    ("1e3", 1000),
    ("1e-05", Fraction(1, 100_000)),
    ("3*4", 12),
    ("2.5*4", 10),
    ("lcm(105,203)", 3045),
    ("17 % 5", 2),
    ("2**3**2", 512),
    ("np.int64(14)", 14),
    (r"$\frac{3}{4}$", Fraction(3, 4)),
    (r"1{,}234", 1234),
    (r"\text{12 apples}", 12),
    (r"3\sqrt{2}", None),
    ("2^{10}", None),
    ("1/0", None),
    ("none", None),
    ("9" * 500, None),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_an_answer_has_its_value_in_every_form(text: str, value: object) -> None:
    assert reading.number_of(text) == value
    for form in (rf"\boxed{{{text}}}", f"answer: {text}", f"**Result:** {text}.", f"- `Answer: {text}`"):
        found = reading.stated(f"Of 20 I tried 7.\n{form}\nIt took 3 minutes.")
        assert found is not None
        assert found.number == value, form


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_an_output_has_the_value_of_its_last_line(text: str, value: object) -> None:
    found = reading.given(f"one more step\n{text}\n")
    assert found is not None
    assert found.number == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer is 12 (out of 20)", 12),
        ("The answer is 12 out of 20.", 12),
        ("The answer is 12. There are 20 in all.", 12),
        ("the answer is **14**.", 14),
        ("my final answer is: $14", 14),
        ("The answer is 3 + 4 = 7 apples", 7),
        ("answer: 12 because x = 3", 12),
        ("answer: x = 12, since y = 3", 12),
        ("answer: gcd(84, 70) = 14", 14),
        ("answer: 12 apples at 2.50 each", 12),
        ("result: the sum is 14", 14),
        ("answer: 13\nanswer: 14", 14),
        ("answer: 14\nAnswer: see above", 14),
        ("answer: 13\nThe answer is 14", 14),
        (r"answer: 13 \boxed{14} answer: 15", 14),
    ],
)
def test_the_stated_answer(text: str, value: int) -> None:
    found = reading.stated(text)
    assert found is not None
    assert found.number == value
    assert reading.given(f"{text}\nIt took 3 seconds.") == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "14",
        "3*4 + 2 = 14",
        "The answer is not 12",
        "The answer is the sum of steps 1 and 2",
        "The answer is 3 times the width",
        "The answer is computed in step 3",
        "the intermediate result: 12",
        "1. Multiply 3 by 4.\n2. Add 2 to get the answer.",
    ],
)
def test_a_method_states_no_answer(text: str) -> None:
    assert reading.stated(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("14\nDone.", 14),
        ("answer: 14\nchecked 20 cases", 14),
        ("12 13 14", 14),
        ("intermediate result: 12\n14", 14),
        ("x = 3, so 12 apples and 5 left, hence 12 apples at 2.50 each", Fraction(5, 2)),
        ("So **14** apples out of 20.", 14),
        ("total = 3*4 (see above)", 12),
        ("total = 12 (of 20)", 12),
        ("(1, 2)", 2),
    ],
)
def test_the_answer_of_an_output(text: str, value: object) -> None:
    found = reading.given(text)
    assert found is not None
    assert found.number == value


def test_words_are_kept() -> None:
    assert reading.given("computed\nA") == reading.Reading("A", None)
    assert reading.given(" \n ") is None


FORMS = st.sampled_from(
    [
        r"\boxed{{{}}}",
        "answer: {}",
        "The answer is {}.",
        "result: {}",
        "**{}**",
        "x = {}",
        "{}",
        "{} or ",
        "({})",
    ]
)
LINES = st.lists(st.builds(str.format, FORMS, st.integers(0, 99)), max_size=8)
TEXTS = st.builds(
    "".join, st.lists(st.one_of(LINES.map(" ".join), LINES.map("\n".join), st.text(max_size=9)))
)
PROSE = st.text(st.sampled_from("abc 0123456789.,()=*-+/%$\n"), max_size=60)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_of_many_numbers_at_most_one_is_read(text: str) -> None:
    stated, first = reading.stated(text), reading.given(text)
    assert stated in (None, first)
    second = reading.given(f"{text}\nanswer: 123")  # replaces what was read, unless that is a box
    assert second is not None
    assert second == first if "boxed" in text else second.number == 123


@settings(max_examples=300, deadline=None)
@given(
    PROSE, PROSE, st.integers(-999, 9999), st.sampled_from([r"\boxed{%d}", "answer: %d", "The answer is %d."])
)
def test_prose_around_a_stated_answer_changes_nothing(before: str, after: str, value: int, form: str) -> None:
    found = reading.given(f"{before}\n{form % value}\n{after}")
    assert found is not None
    assert found.number == value


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), TEXTS, st.text(st.sampled_from("0123456789/.,e+-()%$*=^\\{} \n"))))
def test_any_text_is_read(text: str) -> None:
    for read in (reading.stated, reading.given, reading.boxed):
        found = read(text)
        assert found is None or len(found.text) <= 1000
    assert reading.number_of(text) is None or re.search("[0-9]", text)


@settings(max_examples=100, deadline=None)
@given(st.fractions(max_denominator=999))
def test_what_is_written_is_read(value: Fraction) -> None:
    assume(value.denominator > 1)
    assert reading.value_of(str(value)) == reading.value_of(repr(value)) == value


@pytest.mark.parametrize(
    "unit",
    ["answer: (1\n", "9", "1,", "\\boxed{", "a1\n", "**1", "(1) ", "the answer is ", "1/", "_ \t", "1e9"],
)
def test_long_texts_are_read_in_time(unit: str) -> None:
    start = time.perf_counter()
    reading.given(unit * 100_000)
    assert time.perf_counter() - start < 2
