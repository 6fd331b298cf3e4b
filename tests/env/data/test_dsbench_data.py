"""The real DSBench layout: a synthetic folder of the same form, and the real texts if available."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from mappa_env.data import adding, load_tasks
from mappa_env.data.tabular import dsbench
from mappa_env.errors import DataError, DataMissingError, OptionError, UnknownTaskError
from mappa_env.grading.submission import grade_submission
from mappa_env.parsing import parse
from mappa_env.scripted import make_team
from mappa_env.types import Task
from paths import DATA
from warm_runner import run_warm

REAL = DATA


def competition(root: Path, name: str, columns: list[str], rows: list[list[object]], sample: str) -> None:
    """Uses the first two thirds of ``rows`` for training; columns: id, one feature, targets."""
    cut = len(rows) * 2 // 3
    folder, answers = root / "data" / "data_resplit" / name, root / "data" / "answers" / name
    folder.mkdir(parents=True)
    answers.mkdir(parents=True)

    def table(path: Path, header: list[str], lines: list[list[object]]) -> None:
        path.write_text("\n".join(",".join(map(str, line)) for line in [header, *lines]) + "\n")

    table(folder / "train.csv", columns, rows[:cut])
    table(folder / "test.csv", columns[:2], [row[:2] for row in rows[cut:]])
    wanted = [columns[0], *columns[2:]]
    table(folder / sample, wanted, [[row[0], *(0 for _ in columns[2:])] for row in rows[cut:]])
    # The answers are in another order than the test table.
    table(answers / "test_answer.csv", wanted, [[row[0], *row[2:]] for row in reversed(rows[cut:])])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "bench"
    wave = [(i * 37) % 60 for i in range(60)]
    competition(
        root,
        "titanic",
        ["PassengerId", "Age", "Survived"],
        [[100 + i, w, int(w > 30)] for i, w in enumerate(wave)],
        "gender_submission.csv",
    )
    competition(
        root,
        "air",
        ["when", "heat", "co", "no"],
        [[f"2020-01-{i}", w, w + 1, 2 * w + 1] for i, w in enumerate(wave)],
        "sample_solution.csv",
    )
    competition(root, "words", ["id", "text", "picked"], [[i, "x", "y"] for i in range(9)], "submission.csv")
    train = [
        {"prompt": f"original {n}", "answer": None, "metadata": {"task_id": n, "data_type": "regression"}}
        for n in ("titanic", "words", "absent")
    ]
    held = [{"prompt": "original air", "answer": None, "metadata": {"task_id": "air", "data_type": "x"}}]
    texts = {
        "titanic": {
            "cleaned_prompt": "about spaceships",
            "metric": "accuracy",
            "target_column": "Transported",
        },
        "air": {"cleaned_prompt": "about air", "metric": "rmsle", "task_type": "extraction"},
        "words": {"cleaned_prompt": "about words", "metric": "jaccard"},
    }
    (root / "Bench").mkdir()
    for part, rows in (("train", train), ("eval", held)):
        lines = "\n".join(json.dumps(row) for row in rows)
        (root / "Bench" / f"dsbench_modeling_{part}.json").write_text(lines + "\n")
    (root / "Bench" / "dsbench_modeling_cleaned_prompts.json").write_text(json.dumps(texts))
    return root


def perfect(task: Task) -> bytes:
    return str(task.truth["answers_csv"]).encode()


def test_a_folder_gives_its_usable_competitions(folder: Path) -> None:
    tasks = dsbench.load(str(folder))
    assert list(tasks.ids) == ["titanic", "air"]
    assert "jaccard" in tasks.skipped["words"]
    assert "absent" in tasks.skipped["absent"]
    assert list(dsbench.load(str(folder), part="eval").ids) == ["air"]
    with pytest.raises(UnknownTaskError, match="titanic"):
        tasks.get("titanik")


def test_columns_come_from_the_data_and_the_kind_from_the_metric(folder: Path) -> None:
    tasks = dsbench.load(str(folder))
    titanic, air = tasks.get("titanic"), tasks.get("air")
    assert (titanic.meta["target"], titanic.meta["id"]) == ("Survived", "PassengerId")
    assert "spaceships" not in titanic.prompt
    assert "PassengerId,Survived" in titanic.prompt
    assert (titanic.family, titanic.meta["task_type"]) == ("classification", "classification")
    assert (air.family, air.meta["target"]) == ("regression", ["co", "no"])
    assert air.meta["columns"] == {"num": ["heat"], "cat": [], "missing": []}
    assert air.compact.splitlines()[:2] == ["task: regression rmsle", "id: 'when' target: 'co' 'no'"]
    assert set(air.files) == {"train.csv", "test.csv", "sample_submission.csv"}


def test_truth_is_aligned_by_id_whatever_the_order_of_the_answers(folder: Path) -> None:
    tasks = dsbench.load(str(folder))
    for name in tasks.ids:
        task = tasks.get(name)
        outcome = grade_submission(task, perfect(task))
        assert (outcome.status, outcome.score) == ("ok", 1.0)
        assert task.truth["constant"] != task.truth["reference"]
        sample = task.files["sample_submission.csv"]
        assert isinstance(sample, Path)
        assert grade_submission(task, sample.read_bytes()).score == 0.0
    # A forest learns this one feature well; answers in the wrong order would look like noise.
    assert tasks.get("titanic").truth["reference"] > 0.9


def test_tasks_survive_copies(folder: Path) -> None:
    tasks = dsbench.load(str(folder))
    twin = pickle.loads(pickle.dumps(tasks)).get("air")  # noqa: S301  (our own bytes)
    again = copy.deepcopy(twin)
    assert again.truth["reference"] == twin.truth["reference"] == tasks.get("air").truth["reference"]


def test_the_scripted_expert_solves_them(folder: Path, tmp_path: Path) -> None:
    tasks, jobs = dsbench.load(str(folder)), []
    for name in tasks.ids:
        workspace = tmp_path / name / "ws"
        workspace.mkdir(parents=True)
        task = tasks.get(name)
        for file, content in task.files.items():
            assert isinstance(content, Path)
            (workspace / file).write_bytes(content.read_bytes())
        team = make_team("dsbench")
        team.reset(task, seed=0)
        agents = ("engineer_0", "modeler_0", "analyst_0")
        jobs.append({"folder": str(workspace), "codes": [parse(team.act(a, 0, ())).code for a in agents]})
    run_warm(jobs)
    for name in tasks.ids:
        outcome = grade_submission(tasks.get(name), (tmp_path / name / "ws" / "submission.csv").read_bytes())
        assert (outcome.status, outcome.score > 0.8) == ("ok", True), outcome


def test_added_data_serves_the_splits(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    with pytest.raises(DataMissingError, match="mappa-env data add dsbench PATH"):
        load_tasks("dsbench", "train")
    assert adding.add("dsbench", folder).tasks == 2
    assert list(load_tasks("dsbench", "train").ids) == ["titanic"]
    assert list(load_tasks("dsbench", "eval").ids) == ["air"]


def test_bad_folders_and_options_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="data_resplit"):
        dsbench.load(str(tmp_path / "elsewhere"))
    with pytest.raises(OptionError, match="part="):
        dsbench.load(str(folder), part="test")
    listed = folder / "Bench" / "dsbench_modeling_train.json"
    listed.write_text('{"prompt": "x", "metadata": {"task_id": "../../etc"}}\n')
    with pytest.raises(DataError, match="line 1"):
        dsbench.load(str(folder))


@pytest.mark.skipif(not (REAL / "dsbench_modeling_train.json").is_file(), reason="the real texts are missing")
def test_the_real_texts_name_metrics_that_are_offered(tmp_path: Path) -> None:
    cleaned = json.loads((REAL / "dsbench_modeling_cleaned_prompts.json").read_text())
    for part in ("train", "eval"):
        name = f"dsbench_modeling_{part}.json"
        (tmp_path / name).symlink_to(REAL / name)
    listed = {part: dsbench._listed(tmp_path, part) for part in ("train", "eval")}
    assert (len(listed["train"]), len(listed["eval"])) == (64, 8)
    assert not set(listed["train"]) & set(listed["eval"])
    offered = {
        n
        for n, row in cleaned.items()
        if dsbench.ALIASES.get(row["metric"], row["metric"]) in dsbench.METRICS
    }
    assert set(listed["eval"]) <= offered
    left_out = set(listed["train"]) - offered - set(dsbench.METRIC_OF)
    assert left_out == {
        "playground-series-s3e13",
        "tweet-sentiment-extraction",
        "us-patent-phrase-to-phrase-matching",
        "google-quest-challenge",
    }
