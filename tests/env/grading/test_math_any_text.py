"""No text breaks the grader: fragments of LaTeX, empty groups and marks, in any order, as box and as gold."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mappa_env.grading.answers import read_answer
from mappa_env.grading.math import alternatives, grade_answer, read_gold, unreadable
from mappa_env.grading.votes import vote_of

ATOMS = st.sampled_from(
    [
        *(",", ";", ":", ".", " ", r"\ ", r"\,", "~", "$", "&", r"\\", "|", "!", "'", "?", "=", "<", r"\le "),
        *(
            "(",
            ")",
            "[",
            "]",
            r"\{",
            r"\}",
            r"\ne ",
            r"\in ",
            r"\cup ",
            r"\setminus ",
            r"\pm ",
            r"\over ",
            "/",
        ),
        *(
            "^",
            "_",
            "+",
            "-",
            r"\infty ",
            r"\%",
            "^\\circ",
            r"\mid ",
            r"\mathbb{R}",
            r"\square",
            r"\therefore ",
        ),
        *(
            "1",
            "12",
            "0.",
            "1,000",
            "1.(6)",
            "x",
            "cm",
            " or ",
            " and ",
            "except",
            "is",
            "y=",
            "(x,y)=",
            r"\[",
            r"\]",
        ),
    ]
)
GROUPS = st.sampled_from(
    [
        *(
            "{%s}",
            r"\text{%s}",
            r"\mathrm{%s}",
            r"\textbf{%s}",
            r"\frac{%s}{2}",
            r"\frac{1}{%s}",
            r"\sqrt{%s}",
        ),
        *("^{%s}", "_{%s}", r"\boxed{%s}", r"\{%s\}", r"\left(%s\right)", r"{\bf %s}", r"\phantom{%s}"),
        *(r"\begin{pmatrix}%s\end{pmatrix}", r"\overline{%s}", "|%s|", r"\colorbox{red}{%s}", "{%s%s}"),
    ]
)


def _grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds(lambda group, text: group.replace("%s", text), GROUPS, st.just("") | inner)
    return st.lists(groups | ATOMS, max_size=5).map("".join)


TEXTS = st.recursive(ATOMS, _grouped, max_leaves=12).map(lambda text: text[:300])
GOLDS = (
    "12",
    "x^2",
    r"\frac13",
    "(1,2)",
    r"[1,2)\cup(3,4]",
    r"\text{cat}",
    "3:15",
    "x=1,y=2",
    r"\text{(C)}",
    "1,2",
)


class _Algebra:
    """A pool that finds everything readable and nothing equal, without workers."""

    def compare(self, pairs: Sequence[tuple[str, str]]) -> tuple[str, list[bool]]:
        return "ok", [False] * len(pairs)

    def readable(self, gold: str) -> bool:
        return True


@settings(max_examples=1500, deadline=None)
@given(TEXTS, st.sampled_from(GOLDS))
@example(r"\text{,\ }\text{}", "12")
@example(r"\text{}\text{ }", "12")
@example(r"\text{;}{}\mathrm{}", "3:15")
def test_no_text_raises_as_a_box_or_as_a_gold(text: str, gold: str) -> None:
    with patch("mappa_env.grading.math_pool.shared_pool", _Algebra):
        grade_answer(rf"\boxed{{{text}}}", gold)
        grade_answer(rf"\boxed{{{gold}}}", text)
        unreadable.__wrapped__(text)  # the cache would keep what this pool says
        alternatives(text)
        for each in [read_answer(text), *read_gold(text).accepted]:
            if each is not None:
                vote_of(each)


@pytest.mark.parametrize("text", [r"\text{,\ }\text{}", r"\text{}\text{}", r"\text{.}\,\text{,}"])
def test_a_box_of_empty_texts_is_wrong(text: str) -> None:
    assert not grade_answer(rf"\boxed{{{text}}}", "12").correct
