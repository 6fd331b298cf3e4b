"""What a program's output may mean: a few values beside words, never one of a long list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.grading.readings import MOST, readings

MEANS_42 = [
    "answer: 42 apples",
    "x = 42 (from 3 equations)",
    "42 [7 steps]",
    "42\nchecked in 0.01 s",
    "42\nverified 20 cases\ntook 0.3 s in 5 rounds",
    "Total 42 after 7 steps",
    "42 apples in 3 baskets",
    "total: 42\nelapsed: 0.5 s",
    "The value is 42.\nDone in 3 steps.",
    "42\n\n--- 1 test passed",
    "Result = 42 m/s^2",
    "{'total': 42, 'n': 3}",
    "value=42 n=7",
    "42.0\n[1, 2, 3]",
    "Total = 42, average = 7",
    "Answer=42;steps=7",
    "step 1: 3*4 = 12\nstep 2: 12+30 = 42\nanswer 42\nchecked 20 cases in 0.3 s",
    "f(1) = 1\nf(2) = 2\nf(3) = 42\ndone in 7 ms",
    "Gesamt 42 nach 7 Schritten",
    "R\u00e9sultat : 42 apr\u00e8s 7 \u00e9tapes",
    "\u7b54\u6848 42 \u7528\u4e86 7 \u6b65",
    "\\[ x = 42 \\]\n(7 steps)",
    "The total is $\\boxed{42}$ after 7 steps",
]
LISTS_42 = [
    "40 41 42 43",
    "41, 42, 43",
    "[40, 42, 44]",
    "42\n43",
    "maybe 40\nmaybe 42\nmaybe 41",
    "41 or 42 or 43",
    "42 and 43",
    "case 1: 41\ncase 2: 42\ncase 3: 43",
    "a 39 b 40 c 41 d 42 e 43",
    "answer: 41\nno, 42 after 7 steps",
    "41 (42 cases)",
]


@pytest.mark.parametrize("text", MEANS_42)
def test_a_value_beside_words_and_other_numbers_is_read(text: str) -> None:
    assert 42 in [reading.number for reading in readings(text)]


@pytest.mark.parametrize("text", LISTS_42)
def test_a_list_of_values_means_one_at_most(text: str) -> None:
    assert 42 not in [reading.number for reading in readings(text)]


def test_points_are_read_beside_words() -> None:
    assert "(1, 2)" in [reading.text for reading in readings("The point is (1, 2) after 3 steps")]


@settings(max_examples=200, deadline=None)
@given(st.text("0123456789 =:.,()[]\nabcxyz-+*/", max_size=300))
def test_a_text_means_a_few_values_at_most(text: str) -> None:
    assert len(readings(text)) <= MOST


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=20),
    st.sampled_from([" ", "\n", ", ", " or ", "\nx = "]),
)
def test_of_many_numbers_one_is_read(numbers: list[int], between: str) -> None:
    assert len({reading.number for reading in readings(between.join(map(str, numbers)))}) <= 1 + (
        "=" in between
    )
