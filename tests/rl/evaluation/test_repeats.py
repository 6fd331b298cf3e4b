"""Several episodes of each task: pass@k without bias, majorities that count ties, intervals over tasks."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.errors import StatsError
from mappa_env.grading.math import MathGrader
from mappa_env.statistics.intervals import mean_ci, wilson
from mappa_env.statistics.repeats import majority, pass_at_k
from mappa_rl.evaluation.arms import compare
from mappa_rl.evaluation.repeats import repeated
from mappa_rl.evaluation.results import Result, load_results, save_results
from mappa_rl.report.tables import REPEATS_CAPTION, measures_caption
from recorded import recorded


def rows(
    outcomes: dict[str, list[tuple[str | None, bool]]], phase: str = "after", seed: int = 0
) -> list[Result]:
    flat = [(task, answer, won) for task, played in outcomes.items() for answer, won in played]
    return [
        Result(phase, 1.0, seed, i, task, "", won, float(won), {}, {}, answer)
        for i, (task, answer, won) in enumerate(flat)
    ]


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_choices_that_hold_a_success(case: tuple[int, int, int]) -> None:
    n, c, k = case
    won = [i < c for i in range(n)]
    held = [any(choice) for choice in itertools.combinations(won, k)]
    assert pass_at_k(n, c, k) == pytest.approx(sum(held) / len(held))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_pass_at_k_refuses_what_cannot_be(n: int, c: int, k: int) -> None:
    with pytest.raises(StatsError, match=f"pass@{k}"):
        pass_at_k(n, c, k)


@pytest.mark.parametrize(
    ("answers", "value", "tied"),
    [
        ([("7", True), ("7", True), ("8", False)], 1.0, False),
        ([("8", False), ("8", False), ("7", True)], 0.0, False),
        ([("7", True), ("8", False)], 0.5, True),
        ([("7", True), ("8", False), ("9", False), (None, False)], 1 / 3, True),
        ([(None, False), (None, False), ("7", True)], 1.0, False),  # no answer, no vote
        ([(None, False), (None, False)], 0.0, False),
        ([("1/2", True), ("1/2", False)], 0.5, False),  # one judgement ran out of time
    ],
)
def test_the_majority_and_its_ties(answers: list[tuple[str | None, bool]], value: float, tied: bool) -> None:
    assert majority(answers) == (pytest.approx(value), tied)


def test_values_are_per_task_and_a_majority_can_be_wrong_where_pass_is_high() -> None:
    found = repeated(
        rows(
            {"a": [("7", True), ("8", False), ("8", False)], "b": [("1", True)] * 3, "c": [(None, False)] * 3}
        )
    )
    assert found == {
        "pass@1": pytest.approx([1 / 3, 1, 0]),
        "pass@2": pytest.approx([2 / 3, 1, 0]),
        "pass@3": [1, 1, 0],
        "maj@3": [0, 1, 0],
        "ties@3": [0, 0, 0],
    }


def test_without_answers_there_is_no_majority() -> None:
    assert set(repeated(rows({"a": [(None, True), (None, False)]}))) == {"pass@1", "pass@2"}


def test_tasks_with_unequal_numbers_of_episodes_are_refused() -> None:
    with pytest.raises(StatsError, match="between 1 and 2 episodes"):
        repeated(rows({"a": [("7", True)], "b": [("7", True), ("7", True)]}))


def test_with_samples_intervals_are_over_tasks() -> None:
    rng = np.random.default_rng(0)
    played = {f"t{i}": [("7", bool(won))] * 8 for i, won in enumerate(rng.random(30) < 0.5)}
    before, after = rows(played, "before"), rows(played)
    alone, several = compare(before, after), compare(before, after, samples=8)
    assert several.before.mean == alone.before.mean
    assert several.before == alone.before  # eight copies of a task are no eight tasks, whatever they are for
    narrow = wilson(sum(row.success for row in before), len(before))
    assert several.before.high - several.before.low > 2 * (narrow.high - narrow.low)
    assert several.before.n == 240
    assert several.measures["pass@8"].before.mean == several.before.mean
    assert several.measures["maj@8"].delta.mean == 0
    assert alone.measures == {}


def test_clustered_means_average_repeats_first() -> None:
    found = mean_ci([0, 0, 1, 1], problems=["a", "a", "b", "b"])
    assert (found.mean, found.n) == (0.5, 2)
    assert found[1:3] == (0.0, 1.0)
    with pytest.raises(StatsError, match="more than one group"):
        mean_ci([0, 1], problems=["a", "a"], groups=[0, 1])


def test_answers_are_on_disk_only_where_there_are_some(tmp_path: Path) -> None:
    save_results(tmp_path, rows({"a": [("7", True), (None, False)]}))
    (path,) = (tmp_path / "evaluations").iterdir()
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert '"answer": "7"' in first
    assert "answer" not in second
    assert [row.answer for row in load_results(tmp_path)["after", 1.0]] == ["7", None]


def test_captions_say_what_is_shown() -> None:
    assert measures_caption([]) == "in brackets: 95 % intervals"
    assert "pass@k" in REPEATS_CAPTION


def test_a_majority_goes_by_value() -> None:
    boxes = ["0.5", "0.5", r"\frac12", "1/2", r"\dfrac12", "3", "3"]
    actions = [[recorded("verifier_0", action=rf"\boxed{{{box}}}")] for box in boxes]
    votes = [(MathGrader().answer(each), box != "3") for each, box in zip(actions, boxes, strict=True)]
    assert majority(votes) == (1.0, False)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{14}", "14"),
        (r"first \boxed{3}, then \boxed{ 014. }", "14"),
        (r"\boxed{1{,}292}", "1292"),
        (r"\boxed{\frac{1}{2}}", "1/2"),
        (r"\boxed{0.5}", "1/2"),
        (r"<think>\boxed{3}</think> I do not know", None),
        (r"<think>\boxed{3}", None),
        ("14", None),
        (r"\boxed{}", None),
        (rf"\boxed{{{'1' * 301}}}", None),
    ],
)
def test_the_answer_of_a_maths_episode(text: str, answer: str | None) -> None:
    assert MathGrader().answer([recorded("verifier_0", action=text, answer=text)]) == answer
    assert MathGrader().answer([]) is None
