"""How an answer is laid out, and remarks on it, are no part of it."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer, unreadable

SAME = [
    *[("41", each) for each in (r"{\bf 41}", r"\bf 41", r"\it{41}", r"\emph{41}", r"\tt 41", r"\pmb{41}")],
    *[("41", each) for each in (r"\[41\]", r"\[ 41 \]", r"\begin{aligned}41\end{aligned}")],
    *[("41", each) for each in (r"\begin{align*}n&=41\end{align*}", r"\begin{equation}41\end{equation}")],
    *[("41", each) for each in (r"41 \blacksquare", r"41\,\square", r"41 \checkmark", "41 ∎", r"41\ \qed")],
    *[("41", each) for each in (r"\therefore 41", r"\Rightarrow n = 41", "∴ 41")],
    *[("41", each) for each in (r"\colorbox{green}{41}", r"\fcolorbox{red}{white}{41}", r"\framebox{41}")],
    *[("41", each) for each in (r"\phantom{1}41", "{}41", "41{}", r"\smash{41}", r"\left.41\right.")],
    *[("41", each) for each in ("41_{10}", r"41_{\text{ten}}", "41=n", r"\text{€}41", r"41\text{€}")],
    *[
        ("41", each)
        for each in (r"41\text{ (maximum)}", r"n=41\text{ (as }n>4\text{)}", r"\text{41 (minimum)}")
    ],
    ("41", r"41 \text{ (because } 42 \text{ is even)}"),
    *[
        (r"\frac{7}{9}", each)
        for each in (r"7\over 9", r"{7 \over 9}", r"\sfrac{7}{9}", r"\nicefrac79", "0.(7)")
    ],
    (r"-\frac{7}{9}", r"-{7\over9}"),
    (r"\frac{7}{90}", "0.0(7)"),
    (r"\frac{12}{5}x", r"{12\over 5}x"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\[6pt]3&4\end{pmatrix}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1 \\[0.5em] 2\end{bmatrix}"),
    (r"\lg 6", r"\log_{10}6"),
    (r"12\text{ bits}", "12"),
    (r"x\equiv 3\pmod 7", r"x \equiv 3 \pmod{7}"),
    (r"x\equiv 3\pmod 7", r"x\equiv -4\ (\text{mod } 7)"),
    (r"n\equiv 5\pmod{11}", r"n \equiv 16 \bmod 11"),
]
OTHER = [
    ("0.41", r"\left.41\right."),
    ("41", r"\left.4\right.1\over 2"),
    ("41", "41_{8}"),
    ("41", "40=n"),
    ("41", "41=40"),
    ("4", "{4}{}1"),
    *[
        ("41", each)
        for each in (r"41\text{ (or 42)}", r"41\text{ (wrong)}", r"41\text{ (only if }n=2\text{)}")
    ],
    ("41", r"41\text{ (as }n>4\text{) or }42"),
    *[("41", each) for each in (r"41\text{ too many}", r"41\text{ for some }", r"41\text{ for some }n")],
    (r"\frac{7}{9}", r"9\over 7"),
    (r"\frac{7}{9}", "0.7(7)1"),
    (r"\frac{7}{90}", "0.(07)"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\[6pt]4&3\end{pmatrix}"),
    (r"\lg 6", r"\ln 6"),
    *[
        (r"x\equiv 3\pmod 7", each)
        for each in (r"x\equiv 4\pmod 7", r"x\equiv 3\pmod 8", "3", r"y\equiv 3\pmod 7")
    ],
]


@pytest.mark.parametrize(("gold", "box"), SAME)
def test_layout_and_remarks_are_no_part_of_an_answer(gold: str, box: str) -> None:
    assert not unreadable(gold)
    assert grade_answer(boxed(box), gold).correct


@pytest.mark.parametrize(("gold", "box"), OTHER)
def test_other_values_stay_wrong_in_any_layout(gold: str, box: str) -> None:
    assert not grade_answer(boxed(box), gold).correct
