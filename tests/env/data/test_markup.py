r"""A copy is found without its figure, with HTML's or doubled signs, and with a request for a box."""

from __future__ import annotations

import time

import pytest

from mappa_env.data.wording import normalise

LONG = (
    r"In the figure, $ABCD$ is a square of side $\sqrt{3}$, and $E$ lies on side $BC$ such that $BE \le 2$. "
    r"Find $\frac{1}{2}$ of the area of triangle $ADE$."
)
FIGURE = '[asy]\ndraw((0,0)--(1,0)--(1,1)--cycle);\nlabel("$A$", (0,0), SW);\n[/asy]'


@pytest.mark.parametrize(
    "copy",
    [
        f"{LONG}\n{FIGURE}",
        f"{FIGURE} {LONG}",
        LONG.replace("such", r"\begin{asy} size(5cm); \end{asy} such"),
        LONG.replace("\\", "\\\\"),
        LONG.replace("\\", "\\\\").replace("$ABCD$", r"\\(ABCD\\)"),
        LONG.replace(r"\le", "&lt;="),
        LONG.replace(r"\le", "&le;"),
        LONG.replace(r"\le", "&amp;le;"),
        LONG.replace(" ", "&nbsp;").replace("$", "&#36;"),
        f"Problem. {LONG}",
        f"Problem 12: {LONG}",
        f"**Problem 3.** {LONG}",
        f"Question: {LONG}",
        rf"{LONG} Please reason step by step, and put your final answer within \boxed{{}}.",
        rf"{LONG} Put your answer in $\boxed{{}}$.",
        LONG + "\nLet's think step by step and output the final answer within \\boxed{}.",
        rf"{LONG} Express the final answer as \boxed{{answer}}",
    ],
)
def test_a_copy_is_known(copy: str) -> None:
    assert normalise(copy) == normalise(LONG)


SHORT = "What is the area of the shaded region?"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{SHORT} {FIGURE}", f"{SHORT} {FIGURE.replace('1', '2')}"),
        (f"{SHORT} {FIGURE}", SHORT),
        (FIGURE, FIGURE.replace("1", "2")),
        (LONG, LONG.replace("3", "5")),
        (f"{LONG} {FIGURE}", f"{LONG.replace('square', 'rhombus')} {FIGURE}"),
        ("x < 3", "x &gt; 3"),
        ("a &b; c", "a c"),
        (r"\begin{cases}x=1\\y=2\end{cases}", r"\begin{cases}x=1 y=2\end{cases}"),
        (r"a\\b", r"a\b"),
        (r"Solve $x=3$ and put the answer in \boxed{}", r"Solve $x=4$ and put the answer in \boxed{}"),
        (r"A. Put $3$ balls in a box. Give the answer.", r"A. Put $4$ balls in a box. Give the answer."),
        (r"It holds. Write $x^2$ as $\boxed{y}$.", r"It holds. Write $x^3$ as $\boxed{y}$."),
        ("Problem.", "Question."),
        ("Problem 3 is harder than Problem 4", "is harder than Problem 4"),
    ],
)
def test_other_problems_stay_others(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize(
    "part", ["[asy]", r"\\\\(", r"\\\\[", "[/asy][asy]", r"\begin{asy}", ". Put answer", "&amp;"]
)
def test_no_text_takes_long(part: str) -> None:
    began = time.process_time()
    normalise(part * 4000)
    assert time.process_time() - began < 3
