"""Two copies of a problem have one wording; what changes a formula changes it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.data import signs
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
    ("2θ + πr", r"2\theta+\pi r"),
    ("αβ", r"\alpha\beta"),
    ("𝛼 ∈ ΔABC", r"\alpha\in\triangle ABC"),
    ("ϕ and ε", r"\varphi and \epsilon"),
    ("µ", r"\mu"),
    ("``nice'' numbers", '"nice" numbers'),
    ("``x'' and f''(x)", "“x” and f''(x)"),
    ("``don't''", '"don’t"'),
    (r"\begin{align*}x&=1\end{align*}Find x", "x = 1 Find x"),
    (r"\begin{align*}a&\le b\end{align*}", r"\[a \leq b\]"),
    (r"\begin{gather}x\end{gather}y", "x y"),
    ("∅", r"\varnothing"),
    ("⌊x⌋ + ⌈y⌉", r"\left\lfloor x\right\rfloor+\lceil y \rceil"),
    ("f : A → B", r"f:A\to B"),
    ("x->0", r"x\rightarrow 0"),
    ("∑ ∏ ∫", r"\sum\prod\int"),
    ("ℝ and ℤ", r"\mathbb{R} and $\mathbb Z$"),
    (r"\mathcal{S}", "S"),
    ("½ of it", r"$\frac{1}{2}$ of it"),
    ("1/3 of it", r"\tfrac13 of it"),
    ("x^½", r"x^{\frac12}"),
    (r"x^\frac12", r"x^{1/2}"),
    ("2½", r"2\frac{1}{2}"),
    ("2 1/2", "2½"),
    ("(1/2, 3/4)", "(½,¾)"),
    ("a ≠ b", r"a \not= b"),
    ("a != b", r"a\ne b"),
    ("a ∉ B", r"a\notin B"),
    ("12 ÷ 3", r"12\div3"),
    ("12 ÷ x", "12/x"),
    ("12 ÷ 3", r"\frac{12}3"),
    ("2 · 3", r"2\times3"),
    (r"n^{\text{th}} term", "nth term"),
    (r"$n^{th}$ term", "$n$-th term"),
    (r"(k+1)^\text{st}", "(k+1)st"),
    ("2ⁿᵈ", r"2\textsuperscript{nd}"),
    (r"1^{st}", "1st"),
    (r"{n \choose k}", r"\dbinom{n}{k}"),
    (r"$n+1 \choose k$", r"\binom{n+1}k"),
    (r"2^{10\choose3}", r"2^{\tbinom{10}{3}}"),
    (r"{a+b \over c}", r"\frac{a+b}{c}"),
    (r"f^{\prime\prime}(x)", "f″(x)"),
    (r"f^\prime(x)", "f'(x)"),
    (r"90^{\circ}", r"90\degree"),
    ("90º", "90 degrees"),
    (r"a $90$-degree angle", r"a $90^\circ$ angle"),
    ("x = ‒3 − 4 – 5", "x=-3-4-5"),
    ("x⁻¹", "x^-1"),
    ("x^{-1}", "x^-1"),
    ("１２＋３", "12+3"),
    ("12\u00a0+\u20093\u200b", "12+3"),
    ("10\u202f000", "10,000"),
    (r"a\;b\hspace{1cm}c\thinspace d", "a b c d"),
    (r"\operatorname{lcm}(a, b)", r"\textrm{lcm}(a,b)"),
    (r"\mathrm{lcm}", r"\text{lcm}"),
    (r"{\bf Find} x", "Find x"),
    ("Poincaré and Erdős", r"Poincar\'e and Erd\H{o}s"),
    ("Poincaré", "Poincare"),
    ("x̄ + ȳ", r"\bar{x}+\overline{y}"),
    ("Σθ̂", r"\Sigma\hat\theta"),
    ("1, 2, . . . , 10", r"1,2,\dots,10"),
    (r"x \equiv 1 \pmod{7}", "x ≡ 1 (mod 7)"),
    ("∛8", r"\sqrt[3]{8}"),
    ("log_2 8", r"\log_{2} 8"),
    ("the set {1, 2, 3}", r"the set $\{1,2,3\}$"),
    ("ℓ ⊥ m", r"\ell\perp m"),
    (r"\|v\|", "‖v‖"),
    (r"a\ast b", "a * b"),
    (r"(0, \infty)", "(0,∞)"),
    ("If x", "if x"),
    ("√(x+1)", r"\sqrt{x+1}"),
    ("√((x+1)(y+1)) + 2", r"\sqrt{(x+1)(y+1)}+2"),
    ("angle ABC of triangle ABC", r"$\angle ABC$ of △ABC"),
    ("as x → 0", "as x to 0"),
    ("x ∈ A", "x in A"),
    ("60\u00a0degrees", "60°"),
    ("4 o'clock, the A's", "4 o’clock, the A’s"),
    ("O'Brien's", "O’Brien’s"),
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
    (r"\sqrt[3]{x+1}", r"\sqrt[3]{x}+1"),
    (r"\sqrt[3]{2}", r"\sqrt{3}2"),
    ("√(x+1)y", "√((x+1)y)"),
    ("√(x)+1", "√(x+1)"),
    (r"\overline{ab}c", r"\overline{abc}"),
    (r"0.\overline{12}3", r"0.\overline{123}"),
    ("x != 3", "x = 3"),
    ("n!=6", r"n\ne6"),
    ("n! = 6", "n = 6"),
    ("x • y", "x y"),
    ("log_2 8", "log 2 8"),
    ("f''(x)", "f(x)"),
    ("f''(x)", "f'(x)"),
    ("``x'' f''(x)", "``x'' f(x)"),
    (r"f^{\prime}(x)", "f(x)"),
    (r"f^{(2)}(x)", "f''(x)"),
    ("(0, ∞)", "(0 ∞)"),
    ("x × y", "x y"),
    (r"\text{width}\times\text{height}", "width height"),
    ("5θ", "50"),
    ("sin α", "sin β"),
    (r"\Sigma", r"\sigma"),
    ("⌊x⌋", "⌈x⌉"),
    ("⌊x⌋", "x"),
    ("⌊x⌋", "[x]"),
    ("{1, 2}", "(1, 2)"),
    (r"\{1,2\}", "[1,2]"),
    ("{1, 2}", "{2, 1}"),
    ("{12, 3}", "{1, 23}"),
    ("∑ a", "∏ a"),
    ("A ∪ B", "A ∩ B"),
    ("A ⊂ B", "A ⊆ B"),
    ("A ∈ B", "A ∉ B"),
    ("a ∣ b", "a ∤ b"),
    ("p → q", "p ← q"),
    ("p → q", "p ⇒ q"),
    ("a ≡ b", "a ≢ b"),
    ("a ≤ b", "a < b"),
    ("a ± b", "a ∓ b"),
    (r"\frac12^n", "1/2^n"),
    ("1/2x", r"\frac12x"),
    ("x^1/2", "x^{1/2}"),
    ("1/23", "12/3"),
    ("½", "2"),
    ("3½", "3*1/2"),
    ("7/2/2020", "7/22020"),
    (r"{n\choose k}m", r"{nm\choose k}"),
    (r"\binom{n}{k}", r"\frac{n}{k}"),
    (r"\binom nk", r"\binom kn"),
    ("x^{-1}", "x^1"),
    ("x^-12", "x^-1 2"),
    ("x^{-1}y", "x^{-1y}"),
    (r"a^{th}", "ath"),
    (r"x^{st}", "xst"),
    (r"e^{nd}", "end"),
    (r"3^{st}", "3st"),
    ("90°", "90"),
    (r"f\circ g", "fg"),
    ("x̄", "x"),
    (r"\vec{x}", r"\hat{x}"),
    ("x_1y", "x_{1y}"),
    ("x_1", "x^1"),
    ("a_n+1", "a_{n+1}"),
    ("Ab = 6", "ab = 6"),
    ("x ≡ 1 (mod 7)", "x ≡ 1 (mod 17)"),
    (r"\begin{pmatrix}1&23\end{pmatrix}", r"\begin{pmatrix}12&3\end{pmatrix}"),
    (r"\begin{pmatrix}a&b\end{pmatrix}", r"\begin{vmatrix}a&b\end{vmatrix}"),
    ("２１", "12"),
    ("−5", "5"),
    ("x·-3", "x·3"),
    ("|x|", "‖x‖"),
    ("10\u202f000", "10 0000"),
    ("1, 2, 3", "3, 2, 1"),
    ("AB ∥ CD", "AB ⊥ CD"),
    ("A'B'C'", "A'BC'"),
    ("f'g", "fg"),
    ("2/3", "3/2"),
    ("2:3", "2/3"),
    ("a∘b", "a⋆b"),
    ("∠ABC", "∡ABC"),
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


@pytest.mark.parametrize(("other", "sign"), sorted({**signs.SAME, **signs.GREEK}.items()))
def test_every_spelling_of_a_sign_is_one_sign(other: str, sign: str) -> None:
    for text in ("2 {} x", "2{} 3", "A B {} C D", "({} 5)"):
        assert normalise(text.format(other)) == normalise(text.format(sign))


def test_signs_are_told_from_each_other() -> None:
    greek = {signs.SAME.get(command, command) for command in signs.GREEK.values()}
    all_signs = {*signs.SAME.values(), *greek} - {'"', "'"}
    assert len({normalise(f"2 {sign} x") for sign in all_signs}) == len(all_signs)


@pytest.mark.parametrize(
    "text",
    [
        "``" * 50_000,
        "``a" * 50_000,
        "^ { \\text" * 20_000,
        "^{" + "\\prime " * 50_000,
        "^{" + "' " * 50_000,
        "$" + "a" * 100_000 + "\\choose",
        "$a\\choose " * 30_000,
        "\\hspace{" * 30_000,
        "1/" * 100_000,
        "1" * 100_000 + "/" + "2" * 100_000 + "x",
        "\\sqrt[" * 50_000,
        "{1, " * 50_000,
        "√(" * 50_000,
        "{a" + "\\choose" * 50_000,
        ". " * 100_000,
        "\u0338" * 50_000,
        "a\u0304" * 50_000,
        "& " * 100_000,
    ],
)
def test_long_texts_take_linear_time(text: str) -> None:
    began = time.monotonic()
    assert normalise(text)
    assert time.monotonic() - began < 8


@given(st.text(alphabet="ab1,.{}^_\\$-'! \t½²", max_size=40))
def test_any_text_has_a_wording_that_spaces_around_it_do_not_change(text: str) -> None:
    assert normalise(text).strip() == normalise(f" {text}\n").strip()


@pytest.mark.parametrize("text", ["{" * 100_000, "^" * 100_000, r"\frac" * 50_000, "}" * 1000, "\\", "a^"])
def test_braces_without_end_trip_nothing(text: str) -> None:
    assert normalise(text)
