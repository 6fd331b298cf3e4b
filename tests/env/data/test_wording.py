"""Two copies of a problem have one wording; what changes a formula changes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.data.contest import read_contest
from mappa_env.data.leaks import overlap
from mappa_env.data.wording import normalise
from mappa_env.types import Task

SAME = [
    ("What is 2 + 2?", "what is $2+2$ ?"),
    (r"Find $\dfrac{1}{2} + x$ .", r"find \(\frac 1 2+x\)."),
    (r"\frac12", r"\tfrac{1}{2}"),
    ("x²", "x^{2}"),
    ("x¹²", "x^{12}"),
    ("x_{1}", "x_1"),
    ("10^{10}", "10^10"),
    ("$9,5,$ and", "$9,$ $5,$ and"),
    (r"\left( x \right)", "(x)"),
    (r"f\left(x,y\right)", "f(x, y)"),
    ("1,000 men", "1000 men"),
    ("$1{,}000$", "1000"),
    ("a two-digit number", "a two digit number"),
    ("3-digit", "3 digit"),
    ("the $x$-axis", "the x axis"),
    ("A train - fast - left.", "a train fast left"),
    ("well---known", "well — known"),
    (r"\angle{DAB}", r"$\angle DAB$"),
    (r"n \le 3", "n ≤ 3"),
    ("4 × 5", r"4\cdot5"),
    ("π r", r"\pi r"),
    (".5 m", "0.5 m"),
    (r"90^\circ", "90°"),
    ("12 − 3", "12 - 3"),
    ("don't", "don’t"),
    (r"1, 2, \ldots, 10", "1, 2, ..., 10"),
    ("**Find** the _sum_ of it", "Find the sum of it"),
    ("FIND THE SUM", "Find the sum"),
    (r"such that \[x\] Find", r"such that\[x\]Find"),
    ('He said "yes".', "He said yes"),
]
OTHER = [
    (r"$\frac{a}{b}c$", r"$\frac{a}{bc}$"),
    ("$2^xy=8$", "$2^{xy}=8$"),
    (r"$\sqrt{a}b$", r"$\sqrt{ab}$"),
    ("$a_{i}j$", "$a_{ij}$"),
    ("12+3", "12-3"),
    ("12+3", "12*3"),
    ("1.5", "15"),
    ("1 2", "12"),
    ("-5", "5"),
    (r"\cos(-x)", r"\cos(x)"),
    ("x - y", "x y"),
    ("ab-cd = 3", "abcd = 3"),
    ("x^2", "x2"),
    ("x²", "x2"),
    ("x_2", "x2"),
    ("x^{12}", "x^1 2"),
    ("x^{2y}", "x^2y"),
    (r"\sqrt{x+1}", r"\sqrt{x}+1"),
    (r"\frac{1}{23}", r"\frac{12}{3}"),
    ("2½", "21/2"),
    ("(1+2)*3", "1+2*3"),
    ("2**3", "2*3"),
    ("n!", "n"),
    ("5%", "5"),
    ("|x|", "x"),
    ("f'(x)", "f(x)"),
    ("f(x,y)", "f(xy)"),
    ("(1,23)", "(12,3)"),
    ("[1,2)", "(1,2]"),
    ("3:2", "32"),
    ("1, 2, 10", "1, 2, ..., 10"),
    ("x<3", "x>3"),
    (r"a\le b", r"a\ge b"),
    ("a=b", r"a\neq b"),
    (r"\sin x", r"\cos x"),
    (r"\Delta", r"\delta"),
    ("Let A = 1, a = 2. Find A", "Let A = 1, a = 2. Find a"),
    ("speed - time", "speed + time"),
    ("???", "!!!"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_style_changes_no_wording(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_changes_a_formula_changes_the_wording(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize(
    ("one", "other"), [("What is 12+3?", "What is 12-3?"), ("Half of 1.5", "Half of 15")]
)
def test_problems_that_differ_in_a_sign_are_two_tasks(tmp_path: Path, one: str, other: str) -> None:
    path = tmp_path / "own.jsonl"
    rows = [{"id": str(n), "prompt": text, "answer": n} for n, text in enumerate((one, other))]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = read_contest("math", path, "")
    assert (len(found.tasks), list(found.left_out)) == (2, [])
    assert not overlap([Task("a", one, "exact_match")], [Task("b", other, "exact_match")])


@given(st.text(alphabet="ab1,.{}^_\\$-'! \t½²", max_size=40))
def test_any_text_has_a_wording_that_spaces_around_it_do_not_change(text: str) -> None:
    assert normalise(text).strip() == normalise(f" {text}\n").strip()


@pytest.mark.parametrize("text", ["{" * 100_000, "^" * 100_000, r"\frac" * 50_000, "}" * 1000, "\\", "a^"])
def test_braces_without_end_trip_nothing(text: str) -> None:
    assert normalise(text)
