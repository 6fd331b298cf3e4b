"""Tables whose ids or labels pandas cannot read and write again are left out, all others are graded."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from mappa_env.data.tabular import dsbench
from mappa_env.data.tabular.dsbench.round_trip import lost, round_trip
from mappa_env.grading.spelling import Keys
from mappa_env.grading.submission import score_submission
from releases import competition

NAME = "spaceship-titanic"
COLUMNS = ["PassengerId", "Spa", "Transported"]


def release(folder: Path, ids: dict[int, str], labels: list[str]) -> dsbench.DSBenchTasks:
    """Some rows have other ids than their numbers; labels follow from the feature."""
    rows: list[list[object]] = [
        [ids.get(i, str(100 + i)), i % len(labels), labels[i % len(labels)]] for i in range(90)
    ]
    competition(folder, NAME, COLUMNS, rows, "sample_submission.csv", base=folder)
    competition(
        folder,
        "titanic",
        [*COLUMNS[:2], "Survived"],
        [[i, i % 2, i % 2] for i in range(60)],
        "sample_submission.csv",
        base=folder,
    )
    return dsbench.load(str(folder))


def by_pandas(tasks: dsbench.DSBenchTasks) -> float | None:
    """The score of a program that learns the label of each feature's value, with pandas' defaults."""
    task = tasks.get(NAME)
    tables = {name: pd.read_csv(Path(str(task.files[name]))) for name in ("train.csv", "test.csv")}
    train, test = tables["train.csv"], tables["test.csv"]
    rule = dict(zip(train["Spa"], train["Transported"], strict=True))
    test["Transported"] = [rule[each] for each in test["Spa"]]
    out = io.StringIO()
    test[["PassengerId", "Transported"]].to_csv(out, index=False)
    return score_submission(task, out.getvalue().encode()).score


@pytest.mark.parametrize(
    "ids", [{}, {80: "1e3"}, {80: "0007"}, {80: "a 7"}, {80: "7.50"}, {80: "1e3", 81: "x"}]
)
@pytest.mark.parametrize(
    "labels", [["0", "1"], ["1e0", "2e0"], ["NA", "Yes"], ["None", "1", "x"], ["01", "02"], ["True", "False"]]
)
def test_what_pandas_writes_is_understood(tmp_path: Path, ids: dict[int, str], labels: list[str]) -> None:
    assert by_pandas(release(tmp_path, ids, labels)) == 1.0


@pytest.mark.parametrize(
    ("ids", "text", "back"),
    [
        ({80: "NA"}, "NA", ""),
        ({80: "None", 81: "nan", 82: "x"}, "None", ""),
        ({80: "1e3", 81: "1000"}, "1e3", "1000.0"),
        ({80: "7", 81: "0007"}, "0007", "7"),
        ({80: "1e999"}, "1e999", "inf"),
    ],
)
def test_ids_that_pandas_loses_are_named(tmp_path: Path, ids: dict[int, str], text: str, back: str) -> None:
    tasks = release(tmp_path, ids, ["0", "1"])
    said = tasks.skipped[NAME]
    assert f"pandas reads the id {text!r} and writes {back!r}" in said
    assert "sample_submission.csv, row " in said
    assert "rename the id in all tables" in said
    assert list(tasks.ids) == ["titanic"]


@pytest.mark.parametrize(
    ("labels", "text", "back"), [(["x", "NA", "None"], "NA", ""), (["1", "2", "Infinity"], "Infinity", "inf")]
)
def test_labels_that_pandas_loses_are_named(tmp_path: Path, labels: list[str], text: str, back: str) -> None:
    said = release(tmp_path, {}, labels).skipped[NAME]
    assert f"column 'Transported': pandas reads the label {text!r} and writes {back!r}" in said
    assert "train.csv, row " in said
    assert "rename the label there and in" in said


def test_a_round_trip_is_that_of_pandas() -> None:
    assert round_trip(["007", "8", "1e3"]) == ["7.0", "8.0", "1000.0"]
    assert round_trip(["NA", 'a "b"', "c,d", " e", "007"]) == ["", 'a "b"', "c,d", " e", "007"]
    assert round_trip([]) == []
    assert lost(["NA", "x"], Keys(["NA", "x"])) == ("NA", "")
    assert lost(["007", "8"], Keys(["007", "8"])) is None
