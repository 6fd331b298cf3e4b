"""Submissions: any bytes get a status and a reason, never a crash or an undeserved score."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.data.tabular import load
from mappa_env.grading import make_grader
from mappa_env.grading.fair import fair
from mappa_env.grading.submission import (
    STATUSES,
    SubmissionGrader,
    grade_model,
    grade_submission,
    ranking,
    separation,
)
from mappa_env.types import FileChange, Outcome, Task
from mappa_env.workspace.workspace import Workspace

TRAIN = load("train")
LABELS = next(t for t in map(TRAIN.get, TRAIN.ids) if t.metric == "f1")
WORDS = next(
    t for t in map(TRAIN.get, TRAIN.ids) if t.metric == "macro_f1" and not t.truth["labels"][0].isdigit()
)
AUC = next(t for t in map(TRAIN.get, TRAIN.ids) if t.metric == "roc_auc")
LOSS = next(t for t in map(TRAIN.get, TRAIN.ids) if t.metric == "log_loss")
LOGS = next(t for t in map(TRAIN.get, TRAIN.ids) if t.metric == "rmsle")
VALUES = next(t for t in map(TRAIN.get, TRAIN.ids) if t.metric == "rmse")

Rows = list[list[str]]


def answers(task: Task) -> Rows:
    return list(csv.reader(io.StringIO(task.truth["answers_csv"].decode())))


def text(rows: Rows) -> bytes:
    return ("\n".join(",".join(row) for row in rows) + "\n").encode()


def changed(task: Task, change: Callable[[Rows], Rows]) -> Outcome:
    return grade_submission(task, text(change(answers(task))))


def fill(value: str) -> Callable[[Rows], Rows]:
    return lambda rows: [rows[0], *([row[0], value] for row in rows[1:])]


def put(value: str) -> Callable[[Rows], Rows]:
    return lambda rows: [*rows[:5], [rows[5][0], value], *rows[6:]]


@pytest.mark.parametrize("task", [LABELS, WORDS, AUC, LOSS, LOGS, VALUES], ids=lambda t: t.metric)
def test_the_answers_themselves_are_perfect_in_any_order(task: Task) -> None:
    best = changed(task, lambda rows: rows)
    assert (best.status, best.success, best.score) == ("ok", True, 1.0)
    assert best.metrics["beats_constant"] == 1.0
    turned = changed(task, lambda rows: [row[::-1] for row in [rows[0], *reversed(rows[1:])]])
    assert turned == best


@pytest.mark.parametrize(
    ("task", "change", "status"),
    [
        (VALUES, lambda rows: [["id", "prediction"], *rows[1:]], "columns"),
        (VALUES, lambda rows: [["", *row] for row in rows], "columns"),
        (VALUES, lambda rows: [row[:1] for row in rows], "columns"),
        (VALUES, lambda rows: rows[:1], "rows"),
        (VALUES, lambda rows: rows[:2], "rows"),
        (VALUES, lambda rows: [*rows, rows[-1]], "rows"),
        (VALUES, lambda rows: [*rows[:-1], rows[-1][:1]], "rows"),
        (VALUES, lambda rows: [*rows[:-1], rows[1]], "ids"),
        (VALUES, lambda rows: [rows[0], *([str(i), row[1]] for i, row in enumerate(rows[1:]))], "ids"),
        (VALUES, put("nan"), "values"),
        (VALUES, put(""), "values"),
        (VALUES, put("inf"), "values"),
        (VALUES, put("many"), "values"),
        (VALUES, put("1e300"), "range"),
        (LOGS, put("-5"), "range"),
        (LOGS, put("-0.5"), "range"),  # the metric is defined there, but the text forbids it
        (LOSS, put("1.5"), "range"),
        (LABELS, put("0.7"), "values"),
        (LABELS, put("2"), "values"),
        (WORDS, put("0"), "values"),
    ],
)
def test_what_is_wrong_is_named(task: Task, change: Callable[[Rows], Rows], status: str) -> None:
    outcome = changed(task, change)
    assert (outcome.status, outcome.success, outcome.score) == (status, False, 0.0), outcome
    assert outcome.reason
    assert outcome.metrics["valid"] == 0.0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", "columns"),
        (b"\x80\x02}q\x00.", "unreadable"),
        (b"PK\x03\x04\xff\xfe", "unreadable"),
        (b"\xff\xfe" + "id,x\n1,2".encode("utf-16-le"), "unreadable"),
        (b'"' + b"x" * 200_000, "unreadable"),
        (b"\n\n\n", "columns"),
        (b"\x00", "columns"),
    ],
)
def test_bytes_that_are_no_table(data: bytes, status: str) -> None:
    assert grade_submission(VALUES, data).status == status


def test_the_longest_cell_is_the_same_whatever_limit_others_set_for_csv() -> None:
    data = b'"' + b"x" * 200_000
    before = csv.field_size_limit(2**31 - 1)
    try:
        assert grade_submission(VALUES, data).status == "unreadable"
    finally:
        csv.field_size_limit(before)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 2000), st.integers(0, 60))
def test_no_bytes_crash_the_grader_or_earn_points(noise: bytes, at: int, cut: int) -> None:
    for task in (LABELS, VALUES):
        good = task.truth["answers_csv"]
        for data in (noise, good[:at] + noise + good[at + cut :]):
            outcome = grade_submission(task, data)
            assert outcome.status in STATUSES
            assert 0.0 <= outcome.score <= 1.0
            if outcome.status != "ok":
                assert (outcome.score, outcome.success) == (0.0, False)
        assert grade_submission(task, noise).status != "ok"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["1", "0", "-1", "1e14", "0.5", "nan", "True", "", "x"]), min_size=36, max_size=80
    )
)
def test_metrics_are_finite_whatever_is_submitted(cells: list[str]) -> None:
    for task in (LABELS, AUC, LOSS, LOGS, VALUES):
        outcome = changed(
            task, lambda rows: [rows[0], *([r[0], c] for r, c in zip(rows[1:], cells, strict=False))]
        )
        assert all(abs(value) < 1e40 for value in outcome.metrics.values())


def test_a_constant_is_valid_and_worth_nothing() -> None:
    for task, value in ((LABELS, "1"), (AUC, "0.5"), (LOSS, "0.3"), (LOGS, "20"), (VALUES, "0")):
        outcome = changed(task, fill(value))
        assert (outcome.status, outcome.success, outcome.score) == ("ok", True, 0.0)
        assert (outcome.metrics["constant"], outcome.metrics["beats_constant"]) == (1.0, 0.0)


def test_spellings_of_the_same_values_are_the_same() -> None:
    plain = changed(LABELS, lambda rows: rows)
    floats = changed(LABELS, lambda rows: [rows[0], *([r[0], f" {r[1]}.0"] for r in rows[1:])])
    assert floats == plain
    quoted = "\r\n".join(",".join(f'"{cell}"' for cell in row) for row in answers(LABELS))
    assert grade_submission(LABELS, b"\xef\xbb\xbf" + quoted.encode()) == plain


def test_ids_and_labels_are_understood_after_a_round_trip_through_floats_and_booleans() -> None:
    plain = changed(LABELS, lambda rows: rows)
    truths = {"0": "False", "1": "true"}
    printed = changed(LABELS, lambda rows: [rows[0], *([f"{row[0]}.0", truths[row[1]]] for row in rows[1:])])
    padded = changed(LABELS, lambda rows: [rows[0], *([row[0].zfill(9), row[1]] for row in rows[1:])])
    assert printed == padded == plain
    wrong = changed(LABELS, lambda rows: [rows[0], *([f"{row[0]}.5", row[1]] for row in rows[1:])])
    assert wrong.status == "ids"


def change_of(name: str, agent: str) -> FileChange:
    return FileChange(name, "created", 1, "", agent=agent)


def test_only_a_file_that_an_agent_wrote_counts(tmp_path: Path) -> None:
    grader = make_grader("submission")
    assert isinstance(grader, SubmissionGrader)
    assert grader.grade(VALUES, (), None).status == "missing"
    with Workspace() as workspace:
        workspace.put("submission.csv", VALUES.truth["answers_csv"])
        assert grader.grade(VALUES, (), workspace).status == "missing"
        workspace.record([change_of("submission.csv", "")], "analyst_0", 2)
        assert grader.grade(VALUES, (), workspace).score == 1.0


def test_files_that_are_no_files_are_unreadable(tmp_path: Path) -> None:
    answer = tmp_path / "answers.csv"
    answer.write_bytes(VALUES.truth["answers_csv"])
    makers: list[Callable[[Path], object]] = [
        lambda path: path.symlink_to(answer),
        lambda path: os.mkfifo(path),
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b"x" * 3_000_000),
    ]
    for make in makers:
        with Workspace() as workspace:
            make(workspace.path / "submission.csv")
            workspace.record([change_of("submission.csv", "")], "analyst_0", 2)
            outcome = SubmissionGrader().grade(VALUES, (), workspace)
            assert (outcome.status, outcome.score) == ("unreadable", 0.0)


def graded_by_model(task: Task, predictions: list[Any]) -> tuple[float, float] | None:
    """The grade of a model with these predictions in a probe's report."""
    model = {"predictions": predictions, "probabilities": predictions, "n_predictions": len(predictions)}
    return grade_model(task, {"model": model})


def test_predictions_of_a_model_are_graded_by_the_rows_of_the_test_table() -> None:
    for task in (LABELS, AUC, VALUES):
        column = [row[1] for row in answers(task)[1:]]
        numbers = [float(cell) for cell in column]
        best = graded_by_model(task, numbers)
        assert best is not None
        assert best[1] >= 1.0
        assert graded_by_model(task, numbers[:-1]) is None
        assert graded_by_model(task, []) is None
        worse = graded_by_model(task, numbers[::-1])
        assert worse is not None
        assert worse[1] < 0.7
    constant = graded_by_model(LABELS, [7] * (len(answers(LABELS)) - 1))
    assert constant is not None
    assert constant[1] < 0.1


def test_numbers_that_stand_for_labels_are_graded_as_those() -> None:
    """Probabilities and codes, as boosters predict them, whatever the order of the names is."""
    names = sorted(WORDS.truth["labels"])
    codes = [names.index(row[1]) for row in answers(WORDS)[1:]]
    shares = np.eye(len(names))[codes] * 0.6 + 0.1
    right = (codes, [float(code) for code in codes], shares.tolist())
    moved = ([(code + 1) % len(names) for code in codes], np.roll(shares, 1, axis=1).tolist())
    for form in (*right, *moved, [f"class {code}" for code in codes]):
        graded = graded_by_model(WORDS, form)
        assert graded is not None
        assert graded[0] == 1.0
    for seed in range(5):
        junk = np.random.default_rng(seed).permutation(codes).tolist()
        assert graded_by_model(WORDS, junk) == graded_by_model(WORDS, [names[code] for code in junk])
    two = [float(row[1]) * 0.8 + 0.1 for row in answers(LABELS)[1:]]
    graded = graded_by_model(LABELS, two)
    assert graded is not None
    assert graded[0] == 1.0
    beyond = graded_by_model(LABELS, [share * 7 for share in two])
    assert beyond is not None
    assert beyond[1] == 0


def test_a_regressor_of_ordered_labels_is_graded_by_the_nearest() -> None:
    names = sorted(WORDS.truth["labels"])
    content = WORDS.truth["answers_csv"].decode()
    for at, name in enumerate(names):
        content = content.replace(f",{name}", f",{3 + 2 * at}")
    labels = [str(3 + 2 * at) for at in range(len(names))]
    truth = {**WORDS.truth, "answers_csv": content.encode(), "labels": labels}
    ordered = dataclasses.replace(WORDS, truth=truth)
    right = [float(row[1]) for row in answers(ordered)[1:]]
    near = [value + 0.8 * (-1) ** at for at, value in enumerate(right)]
    for predictions in (near, [value + 1e-9 for value in right]):
        graded = graded_by_model(ordered, predictions)
        assert graded is not None
        assert graded[0] == 1.0
    assert graded_by_model(ordered, [float("nan"), *near[1:]]) is None
    beyond = graded_by_model(ordered, [1e9] * len(near))
    assert beyond is not None
    assert beyond[1] < 0.1


def test_a_probe_may_list_only_the_first_predictions() -> None:
    column = [float(row[1]) for row in answers(AUC)[1:]]
    model = {"predictions": [0.0] * 30, "probabilities": column[:30], "n_predictions": len(column)}
    graded = grade_model(AUC, {"model": model})
    assert graded is not None
    assert graded[0] == 1.0
    assert grade_model(AUC, {"model": {**model, "n_predictions": 30}}) is None
    assert grade_model(AUC, {"probe_failed": "timeout"}) is None
    assert grade_model(AUC, {"model": {"predictions": "all", "n_predictions": 3}}) is None


def test_fair_metrics_count_failed_runs() -> None:
    outcomes = [
        changed(LABELS, lambda rows: rows),
        changed(LABELS, lambda rows: rows[:3]),
        changed(VALUES, lambda rows: rows),
        changed(VALUES, lambda rows: rows[:3]),
        Outcome(0.0, False, "unavailable", "the sandbox was unavailable"),
    ]
    assert fair(outcomes) == {
        "accuracy_fair": 0.75,
        "f1_fair": 0.5,
        "rmse_fair": 25.0,
        "success_rate": 0.5,
        "n": 4.0,
        "n_classification": 2.0,
        "n_regression": 2.0,
        "n_unavailable": 1.0,
    }
    assert fair([])["n"] == 0.0


def test_readable_metrics() -> None:
    values = changed(VALUES, fill("0"))
    truth = [float(row[1]) for row in answers(VALUES)[1:]]
    wanted = 100 * (sum(v * v for v in truth) / len(truth)) ** 0.5 / (max(truth) - min(truth))
    assert values.metrics["rmse_pct_of_range"] == pytest.approx(wanted)
    assert values.metrics["rmse_fair"] == pytest.approx(min(wanted, 100.0))
    ones = changed(AUC, fill("0.9"))
    share = sum(row[1] == "1" for row in answers(AUC)[1:]) / (len(answers(AUC)) - 1)
    assert ones.metrics["accuracy"] == pytest.approx(share)
    assert ones.metrics["f1"] == pytest.approx(2 * share / (1 + share))


def test_probabilities_are_rounded_for_accuracy_and_f1_alone() -> None:
    """The published definition: a perfect ranking below one half is worth its AUC, and no F1."""
    low = changed(AUC, lambda rows: [rows[0], *([i, str(0.2 + 0.2 * float(v))] for i, v in rows[1:])])
    high = changed(AUC, lambda rows: [rows[0], *([i, str(0.4 + 0.2 * float(v))] for i, v in rows[1:])])
    assert low.metrics["roc_auc"] == high.metrics["roc_auc"] == 1.0
    assert low.score == high.score == 1.0
    assert (low.metrics["f1_fair"], high.metrics["f1_fair"]) == (0.0, 1.0)
    assert high.metrics["accuracy_fair"] == 1.0


@pytest.mark.parametrize("classes", [("0", "1"), ("1", "2"), ("-1", "1"), ("3", "7.5")])
def test_two_numbers_are_two_classes_whatever_they_are(classes: tuple[str, str]) -> None:
    rows = answers(AUC)
    coded = [rows[0], *([i, classes[int(value)]] for i, value in rows[1:])]
    written = "".join(",".join(row) + "\n" for row in coded).encode()
    task = dataclasses.replace(AUC, truth={**AUC.truth, "answers_csv": written})
    likely = changed(task, lambda _: [rows[0], *([i, str(0.1 + 0.8 * float(v))] for i, v in rows[1:])])
    named = changed(task, lambda _: coded)
    for outcome in (likely, named):
        assert outcome.metrics["roc_auc"] == 1.0
        assert (outcome.metrics["accuracy"], outcome.metrics["f1"]) == (1.0, 1.0)


@pytest.mark.parametrize("task", [LABELS, AUC, LOSS])
def test_separation_needs_no_threshold_and_no_order_of_classes(task: Task) -> None:
    rows = [line.split(",")[1] for line in task.truth["answers_csv"].decode().split()[1:]]
    last = [float(row == max(rows)) for row in rows]

    def seen(shares: list[float]) -> dict[str, Any]:
        return {"model": {"n_predictions": len(rows), "probabilities": shares}}

    assert separation(task, seen([0.01 + share / 100 for share in last])) == pytest.approx(1)
    assert separation(task, seen([0.9 - share / 10 for share in last])) == pytest.approx(1)
    assert separation(task, seen([0.5] * len(rows))) == 0
    assert separation(task, seen([0.01 + share / 100 for share in last]), signed=True) == pytest.approx(1)
    assert separation(task, seen([0.9 - share / 10 for share in last]), signed=True) == pytest.approx(-1)


@pytest.mark.parametrize("task", [VALUES, WORDS])
def test_separation_is_only_known_of_two_classes(task: Task) -> None:
    rows = len(task.truth["answers_csv"].decode().split()) - 1
    assert separation(task, {"model": {"n_predictions": rows, "probabilities": [0.5] * rows}}) is None
    assert separation(LABELS, {"model": {"probabilities": [0.5]}}) is None
    assert separation(LABELS, {}) is None


def of_two_targets(task: Task, metric: str) -> Task:
    """The task, asked for its target twice: as it is and with its rows in another order."""
    header, *rows = answers(task)
    turned = [[*row, other[1]] for row, other in zip(rows, reversed(rows), strict=True)]
    truth = {**task.truth, "target": [header[1], "other"], "answers_csv": text([[*header, "other"], *turned])}
    return dataclasses.replace(task, metric=metric, truth=truth)


def test_of_several_targets_the_one_that_is_told_best_counts() -> None:
    task = of_two_targets(LOSS, "mean_roc_auc")
    _, *rows = answers(task)
    last = max(row[1] for row in rows)
    first = [float(row[1] == last) for row in rows]
    chance = [0.5] * len(rows)

    def seen(*columns: list[float], **more: Any) -> dict[str, Any]:
        said = [list(row) for row in zip(*columns, strict=True)]
        return {"model": {"n_predictions": len(rows), "predictions": said, **more}}

    assert separation(task, seen(first, chance)) == pytest.approx(1)
    assert separation(task, seen(chance, chance)) == 0
    shares = [[0.5, share] for share in first]
    named = {"probabilities": shares, "classes": ["other", answers(task)[0][1]]}
    assert separation(task, seen(chance, chance, **named)) == pytest.approx(1)
    assert separation(task, seen(first)) is None

    values = of_two_targets(VALUES, "mcrmse")
    numbers = [float(row[1]) for row in answers(values)[1:]]
    facts = {"n_predictions": len(numbers), "predictions": [[1.0, -2 * each] for each in numbers[::-1]]}
    assert ranking(values, {"model": facts}) == pytest.approx(1)
    assert ranking(values, {"model": {**facts, "predictions": numbers}}) is None
