"""Formulas that are equal everywhere are one answer, either way round; those that differ anywhere are two."""

from __future__ import annotations

import pytest

from boxes import boxed
from mappa_env.grading.math import grade_answer

SAME = [
    (r"-\frac{1}{2}+\frac{\sqrt{3}}{2}i", r"e^{2\pi i/3}"),
    (r"-\frac12-\frac{\sqrt3}{2}i", r"e^{\frac{4\pi i}{3}}"),
    (r"4e^{i\pi/6}", r"2\sqrt3+2i"),
    (r"5e^{i\pi}", "-5+0i"),
    (r"\cos\frac{\pi}{5}+i\sin\frac{\pi}{5}", r"e^{i\pi/5}"),
    (r"\cot x", r"\frac{\sin 2x}{1-\cos 2x}"),
    (r"\cos 5t", r"16\cos^5t-20\cos^3t+5\cos t"),
    (r"\sin 3x", r"3\sin x-4\sin^3x"),
    (r"\frac{\sin 4x}{\sin x}", r"8\cos^3x-4\cos x"),
    (r"\sinh 2x", r"2\sinh x\cosh x"),
    (r"\log_3 x", r"\frac{\ln x}{\ln 3}"),
    (r"\sqrt{y^5}", r"y^{5/2}"),
    (
        r"\begin{pmatrix}\cos 2x\\ \sin 2x\end{pmatrix}",
        r"\begin{pmatrix}2\cos^2x-1\\2\sin x\cos x\end{pmatrix}",
    ),
    (r"\sec^2x", r"1+\tan^2x"),
    (r"re^{i\theta}", r"r\cos\theta+ir\sin\theta"),
    (r"\cos 25^\circ", r"\sin 65^\circ"),
    (r"\tan 30^\circ", r"\frac{\sqrt3}{3}"),
]
OTHER = [
    (r"\sqrt{t^2}", "t"),
    (r"\sqrt{(t-700)^2}", "700-t"),
    (r"\sqrt{(t-700)^2}", "t-700"),
    (r"|t-3000|", "3000-t"),
    (r"\ln t^4", r"4\ln t"),
    (r"\ln (t-700)^2", r"2\ln(700-t)"),
    (r"\sqrt{(t-30^2)^2}", "30^2-t"),
    (r"\arccos(\cos x)", "x"),
    (r"\arctan x+\arctan\frac{1}{x}", r"\frac{\pi}{2}"),
    (r"10^{-30}\sin x", r"10^{-30}x"),
    (r"\cos 5t", r"16\cos^5t-20\cos^3t-5\cos t"),
    (r"4e^{i\pi/6}", r"2\sqrt3-2i"),
    (r"\cos 25^\circ", r"\sin 25^\circ"),
    (r"\cos 25^\circ", r"\cos 25"),
    (r"e^{i\pi/3}", r"e^{-i\pi/3}"),
    (r"\sqrt{a^2b}", r"a\sqrt{b}"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_formulas_are_right_either_way(one: str, other: str) -> None:
    assert grade_answer(boxed(one), other).correct
    assert grade_answer(boxed(other), one).correct


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_formulas_that_differ_somewhere_are_wrong_either_way(one: str, other: str) -> None:
    assert not grade_answer(boxed(one), other).correct
    assert not grade_answer(boxed(other), one).correct
