"""The real DSBench layout: releases of the same form, sound and broken, and the real texts if available."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from mappa_env import cli
from mappa_env.data import adding, load_tasks
from mappa_env.data.store import recorded
from mappa_env.data.tabular import dsbench
from mappa_env.data.tabular.dsbench import Release, checking, truth
from mappa_env.data.tabular.dsbench.competitions import competitions
from mappa_env.envs.team_env import TeamEnv
from mappa_env.errors import DataError, DataMissingError, DataWarning, OptionError, UnknownTaskError
from mappa_env.grading.metrics import METRICS
from mappa_env.grading.submission import grade_submission
from mappa_env.grading.tabular import columns_of
from mappa_env.parsing import parse
from mappa_env.registration import card_of
from mappa_env.scripted import make_team
from mappa_env.types import Task
from paths import DATA
from releases import ANSWERS, BIKE, WAVE, WINNERS, competition, perfect, plain_release, rewrite
from warm_runner import run_warm


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A release with the three JSON files of texts, and two competitions that only they name."""
    root = tmp_path / "bench"
    rows = [[100 + i, w, int(w > 30)] for i, w in enumerate(WAVE)]
    competition(root, "titanic", ["PassengerId", "Age", "Survived"], rows, "gender_submission.csv")
    rows = [[f"2020-01-{i}", w, w + 1, 2 * w + 1] for i, w in enumerate(WAVE)]
    competition(root, "air", ["when", "heat", "co", "no"], rows, "sample_solution.csv")
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
        "words": {"cleaned_prompt": "about words", "metric": "perplexity"},
    }
    (root / "Bench").mkdir()
    for part, listed in (("train", train), ("eval", held)):
        lines = "\n".join(json.dumps(row) for row in listed)
        (root / "Bench" / f"dsbench_modeling_{part}.json").write_text(lines + "\n")
    (root / "Bench" / "dsbench_modeling_cleaned_prompts.json").write_text(json.dumps(texts))
    return root


def test_the_table_has_all_competitions_and_metrics_that_exist() -> None:
    table = competitions()
    assert len(table) == 74
    assert {name for each in table.values() for name in (each.metric, each.published)} <= set(METRICS)
    differ = {name: each.published for name, each in table.items() if each.published != each.metric}
    assert differ == {
        "playground-series-s3e13": "hit@3",
        "playground-series-s3e19": "smape_fraction",
        "tabular-playground-series-mar-2022": "mse",
    }
    assert sum(each.split == "eval" for each in table.values()) == 8
    assert sum(not METRICS[each.metric].higher_is_better for each in table.values()) == 33
    families = {Task(name, "", each.metric).family for name, each in table.items()}
    assert families == {"classification", "regression", "extraction"}


def test_a_plain_release_loads_with_its_own_texts(tmp_path: Path) -> None:
    """Every kind of metric; no file beyond those of the release."""
    root = plain_release(tmp_path / "release")
    tasks = dsbench.load(str(root))
    assert len(tasks.ids) == 9
    assert len(tasks.skipped) == 74 - 9
    assert all("does not exist" in reason for reason in tasks.skipped.values())
    rng = np.random.default_rng(0)
    for name in tasks.ids:
        task = tasks.get(name)
        assert task.prompt.startswith(f"The text of {name}."), task.prompt
        assert task.metric == competitions()[name].metric
        assert (task.family, task.meta["task_type"]) == (task.meta["task_type"], task.family)
        best = grade_submission(task, perfect(task))
        assert (best.status, best.score) == ("ok", 1.0), (name, best)
        assert best.metrics[task.metric] == pytest.approx(METRICS[task.metric].ideal, abs=1e-9)
        header, *rows = perfect(task).decode().split("\n")[:-1]
        mixed = "\n".join([header, *rng.permutation(rows)]).encode()
        assert grade_submission(task, mixed) == best  # rows are matched by id
        assert task.truth["constant"] != task.truth["reference"], name


def test_a_folder_gives_its_usable_competitions(folder: Path) -> None:
    tasks = dsbench.load(str(folder))
    assert list(tasks.ids) == ["titanic", "air"]
    assert "'perplexity'" in tasks.skipped["words"]
    assert "absent" in tasks.skipped["absent"]
    assert "does not exist" in tasks.skipped["bike-sharing-demand"]
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
    assert (air.family, air.metric, air.meta["target"]) == ("regression", "mean_rmsle", ["co", "no"])
    assert air.meta["columns"] == {"num": ["heat"], "cat": [], "missing": []}
    assert air.compact.splitlines()[:2] == ["task: regression mean_rmsle", "id: 'when' target: 'co' 'no'"]
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
    task = dsbench.load(str(folder)).get("air")
    twin = pickle.loads(pickle.dumps(task))  # noqa: S301  (our own bytes)
    again = copy.deepcopy(twin)
    assert again.truth["reference"] == twin.truth["reference"] == task.truth["reference"]


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


def test_added_data_serves_the_splits(folder: Path) -> None:
    with pytest.raises(DataMissingError, match="mappa-env data add dsbench PATH"):
        load_tasks("dsbench", "train")
    assert sum(added.tasks for added in adding.add("dsbench", folder)) == 2
    assert list(load_tasks("dsbench", "train").ids) == ["titanic"]
    assert list(load_tasks("dsbench", "eval").ids) == ["air"]
    assert list(load_tasks("tabular", "added-eval").ids) == ["air"]
    assert [problems for _, problems in adding.verify("dsbench")] == [[], []]


def test_cards_of_generated_tasks_say_how_they_play_real_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adding.add("dsbench", folder)
    for name in ("DSBenchSprint-v0", "DSBenchSingle-v0", "DSBenchManager-v0"):
        for tasks in ("added-train", str(folder)):
            with pytest.raises(
                OptionError, match="they cannot have names and variants, which the card"
            ) as found:
                TeamEnv(card_of(name), tasks=tasks)
            undo = re.search(r"mappa/DSBench-v0 plays them, .* task_options=(\{.*\})\.", str(found.value))
            assert undo, found.value
            options = json.loads(undo[1].replace("'", '"'))
            env = TeamEnv(card_of(name), tasks=tasks, task_options=options, coach="off")
            assert "titanic" in env.task_ids
            env.close()
    with pytest.raises(OptionError, match=r"cannot have size, .* task_options=\{'size': None\}"):
        load_tasks("tabular", "added-train", {"size": 3})
    assert cli.main(["play", "DSBenchSingle-v0", "--tasks", "added-train"]) == 2
    assert "mappa/DSBench-v0" in capsys.readouterr().err


def test_adding_prints_what_is_left_out_and_what_is_corrected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["data", "add", "dsbench", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "dsbench train: 1 tasks" in said
    assert "corrected: titanic: data_type 'regression' is wrong: the metric accuracy makes it" in said
    assert "corrected: titanic: the cleaned text is about a column 'Transported' that no table has" in said
    assert "corrected: air: task_type 'extraction' is wrong" in said
    assert "corrected: air: metric" not in said  # rmsle of two columns is the mean over columns
    assert "67 left out:\n  words: " in said  # first those that are there
    reasons = {each.where: each.reason for each in recorded("dsbench")[1].left_out}
    assert "does not exist" in reasons["bike-sharing-demand"]
    assert cli.main(["data", "ls"]) == 0
    assert cli.main(["data", "verify"]) == 0
    assert cli.main(["list"]) == 0
    assert "dsbench" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("how", ["overwritten", "deleted before the first action", "deleted after it"])
def test_files_that_change_during_an_episode_trip_nothing(folder: Path, how: str) -> None:
    tables = [*(folder / "data").rglob("titanic/*.csv")]
    env = TeamEnv(card_of("mappa/DSBench-v0"), tasks=str(folder), coach="rubric")
    team = make_team("dsbench")

    def damage() -> None:
        for path in tables:
            path.write_bytes(b"\xff\xfe\x00") if how == "overwritten" else path.unlink(missing_ok=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error" if how == "deleted after it" else "ignore", DataWarning)
        try:
            env.reset(np.random.default_rng(0), {"task_id": "titanic"})
            team.reset(env.episode.task, seed=0)
            texts = {agent.name: team.act(agent.name, 0, ()) for agent in env.card.team}
            if how != "deleted after it":
                damage()
            while not env.episode.over:
                env.act(texts[str(env.episode.agent)])
                damage()
            outcome = env.episode.outcome
            assert outcome is not None
            assert outcome.status == "unavailable", outcome
            assert not any(valid for _, valid in env.rewards) or how == "deleted after it"
            with pytest.warns(DataWarning, match="titanic"):  # the next episode says which file
                env.reset(np.random.default_rng(0), {"task_id": "titanic"})
            assert env.episode.task.void
        finally:
            env.close()


def test_files_that_changed_after_adding_are_left_out(folder: Path) -> None:
    adding.add("dsbench", folder)
    task = load_tasks("dsbench", "train").get("titanic")
    for path in (folder / "data").rglob("titanic/*.csv"):
        path.write_bytes(b"\xff\xfe\x00")
    assert grade_submission(task, perfect(task)).status == "ok"  # its answers had been read
    with pytest.raises(DataError, match="has changed since it was added"):
        load_tasks("dsbench", "train")
    assert any(problems for _, problems in adding.verify("dsbench"))
    assert list(load_tasks("dsbench", "eval").ids) == ["air"]


def test_bad_folders_and_options_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="data_resplit"):
        dsbench.load(str(tmp_path / "elsewhere"))
    with pytest.raises(OptionError, match="part="):
        dsbench.load(str(folder), part="test")
    listed = folder / "Bench" / "dsbench_modeling_train.json"
    listed.write_text('{"prompt": "x", "metadata": {"task_id": "../../etc"}}\n')
    (reason,) = [text for where, text in dsbench.load(str(folder)).skipped.items() if "line 1" in where]
    assert "must name a competition" in reason


LISTED, CLEANED = "dsbench_modeling_train.json", "dsbench_modeling_cleaned_prompts.json"


@pytest.mark.parametrize(
    ("file", "text", "where", "reason"),
    [
        (LISTED, '{"a":' * 100_000, f"{LISTED}, line 1", "recursion"),
        (LISTED, "[1]", f"{LISTED}, line 1", "needs 'prompt'"),
        (LISTED, json.dumps({"prompt": "p", "metadata": {"task_id": "x" * 300}}), "line 1", "must name"),
        (
            LISTED,
            r'{"prompt": "a \ud800", "metadata": {"task_id": "titanic"}}',
            "titanic",
            "line 1: .*Unicode",
        ),
        (LISTED, r'{"prompt": "a \u0000", "metadata": {"task_id": "titanic"}}', "titanic", "line 1: .*NUL"),
        (
            LISTED,
            '{"prompt": " ", "metadata": {"task_id": "titanic"}}',
            "titanic",
            "line 1: 'prompt' is empty: a problem needs a text",
        ),
        (LISTED, '{"metadata": {"task_id": "titanic"}}', "titanic", "line 1: 'prompt' must be"),
        (CLEANED, r'{"titanic": {"cleaned_prompt": "a \ud800"}}', "titanic", f"{CLEANED}.*Unicode"),
        ("task/titanic.txt", "a\0b", "titanic", r"titanic\.txt.*NUL"),
    ],
)
def test_a_bad_text_leaves_out_its_task_alone(
    tmp_path: Path, file: str, text: str, where: str, reason: str
) -> None:
    root = plain_release(tmp_path / "release", only=("titanic", BIKE))
    (root / file).write_text(text)
    added = adding.add("dsbench", root)
    (found,) = [
        each
        for split in added
        for each in split.left_out
        if where in f"{each.where}{each.reason}" and "does not exist" not in each.reason
    ]
    assert re.search(reason, found.reason), found
    assert sum(split.tasks for split in added) == (1 if where == "titanic" else 2)
    for task in map(dsbench.load(str(root)).get, dsbench.load(str(root)).ids):
        task.prompt.encode()


def test_a_file_of_texts_that_is_no_json_names_itself(tmp_path: Path) -> None:
    root = plain_release(tmp_path / "release", only=("titanic",))
    (root / CLEANED).write_text("[" * 100_000)
    with pytest.raises(DataError, match=f"{CLEANED} is not readable JSON"):
        adding.add("dsbench", root)


TABLES = ["train.csv", "test.csv", "sample_submission.csv"]


@pytest.mark.parametrize(
    "name",
    [
        LISTED,
        CLEANED,
        "task/titanic.txt",
        "answers/titanic/test_answer.csv",
        *(f"data_resplit/titanic/{each}" for each in TABLES),
    ],
)
def test_a_pipe_is_no_file_of_a_release(tmp_path: Path, name: str) -> None:
    root = plain_release(tmp_path / "release", only=("titanic",))
    (root / name).unlink(missing_ok=True)
    os.mkfifo(root / name)
    with pytest.raises(DataError, match=r"is a named pipe, not a file"):
        adding.add("dsbench", root)


def test_one_bad_competition_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One class has three names; and a check that itself fails is no reason to lose a release."""
    root = plain_release(tmp_path / "release", only=("titanic", BIKE))
    rows = [[i, w, int(w < 20), int(20 <= w < 40), "NYM"[w // 20]] for i, w in enumerate(WAVE)]
    competition(tmp_path, "lmsys-chatbot-arena", WINNERS, rows, "sample_submission.csv", base=root)
    tasks = dsbench.load(str(root))
    assert set(tasks.ids) == {"titanic", BIKE}
    assert re.search(
        "test_answer.csv, column 'winner_tie': .*two classes", tasks.skipped["lmsys-chatbot-arena"]
    )

    def fails(metric: str, rows: object) -> object:
        if metric == "rmsle":
            raise ZeroDivisionError("a slip")
        return columns_of(metric, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(checking, "columns_of", fails)
    os.utime(root / "answers" / BIKE / ANSWERS, (1, 1))  # checked again
    assert cli.main(["data", "add", "dsbench", str(root)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(rf"{BIKE}: \S*{ANSWERS} and \S*train.csv, columns \['count'\]: .*a slip", said), said


@pytest.mark.parametrize("header", ["id,answer", "SURVIVED,a", " PassengerId , Survived "])
def test_answers_are_read_by_position_where_their_columns_have_other_names(
    tmp_path: Path, header: str
) -> None:
    names = ("titanic", "playground-series-s4e2", "playground-series-s3e13", BIKE)
    root = plain_release(tmp_path / "release", only=names)
    for name in names:
        path = root / "answers" / name / ANSWERS
        rewrite(path, lambda rows: rows.__setitem__(0, header.split(",")))
        rewrite(path, lambda rows: rows[3].__setitem__(1, "7"))
    added = adding.add("dsbench", root)
    assert sum(each.tasks for each in added) == len(names)
    noted = [text for each in added for text in each.noted if "is nowhere in train.csv" in text]
    assert len(noted) == len(names) - 1, noted  # a number needs no row of its own to be learned
    assert all("row 3, column " in text and "the label '7'" in text for text in noted)
    for split in ("train", "eval"):
        tasks = load_tasks("dsbench", split)
        for task in map(tasks.get, tasks.ids):
            assert grade_submission(task, perfect(task)).score == 1.0


@pytest.mark.parametrize("step", ["unlearned", "corrections", "get"])
def test_what_goes_wrong_while_adding_leaves_out_one_competition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    root = plain_release(tmp_path / "release", only=("titanic", BIKE))
    whole = getattr(dsbench.DSBenchTasks, step)

    def fails(self: dsbench.DSBenchTasks, name: str) -> object:
        if name == "titanic":
            raise DataError("a slip")
        return whole(self, name)

    monkeypatch.setattr(dsbench.DSBenchTasks, step, fails)
    train, _ = adding.add("dsbench", root)
    assert train.tasks == 1
    assert {each.where: each.reason for each in train.left_out}["titanic"] == "a slip"


@pytest.mark.parametrize("problem", ["answers", "text", "reference"])
def test_competitions_that_are_there_are_named_before_those_that_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    root = plain_release(tmp_path / "release", only=(BIKE,))
    if problem == "answers":
        (root / "answers" / BIKE / ANSWERS).unlink()
    elif problem == "text":
        (root / "task" / f"{BIKE}.txt").unlink()
    else:
        monkeypatch.setattr(truth, "reference_score", lambda *_: 1 // 0)
    assert cli.main(["data", "add", "dsbench", str(root)]) == 2
    said = capsys.readouterr().err
    assert re.search(rf"has no usable competition \(all\)\. {BIKE}: ", said), said
    assert "and 71 more." in said


def test_a_target_that_the_sample_calls_otherwise_is_understood_by_both_names(tmp_path: Path) -> None:
    rows = [[i, w, w % 20] for i, w in enumerate(WAVE)]
    root = plain_release(tmp_path / "release", only=())
    competition(
        root.parent,
        "playground-series-s3e16",
        ["id", "Length", "Age"],
        rows,
        "sample_submission.csv",
        base=root,
    )
    sample = root / "data_resplit" / "playground-series-s3e16" / "sample_submission.csv"
    sample.write_text(sample.read_text().replace("id,Age", "id,yield"))
    added = adding.add("dsbench", root)[0]
    assert any("'yield'" in text and "'Age'" in text for text in added.corrected)
    task = load_tasks("dsbench", "train").get("playground-series-s3e16")
    assert task.meta["target"] == "Age"
    assert task.files["sample_submission.csv"].startswith(b"id,Age\n")  # type: ignore[union-attr]
    assert task.truth["reference"] < task.truth["constant"]
    for name in (b"Age", b"yield"):
        assert grade_submission(task, perfect(task).replace(b"Age", name)).score == 1.0


def test_odd_features_trip_no_reference(tmp_path: Path) -> None:
    root = plain_release(tmp_path / "release", only=(BIKE,))

    def odd(rows: list[list[str]]) -> None:
        for number, row in enumerate(rows[1:], 1):
            row[1] = ["-1e300", "1e300", "", "nan", "7"][number % 5]

    for name in ("train.csv", "test.csv"):
        rewrite(root / "data_resplit" / BIKE / name, odd)
    adding.add("dsbench", root)
    task = load_tasks("dsbench", "train").get(BIKE)
    assert np.isfinite(task.truth["reference"])


@pytest.mark.parametrize("name", ["conways-reverse-game-of-life-2020", "google-quest-challenge"])
def test_one_forest_is_the_reference_of_many_targets(tmp_path: Path, name: str) -> None:
    names = [f"t{j:02d}" for j in range(12)]
    rows = [[i, w, *((w + 3 * j) % 60 / 60 for j in range(12))] for i, w in enumerate(WAVE)]
    competition(tmp_path, name, ["id", "x", *names], rows, "sample_submission.csv")
    task = dsbench.load(str(tmp_path)).get(name)
    assert task.meta["target"] == names
    assert grade_submission(task, perfect(task)).score == 1.0
    constant, reference = task.truth["constant"], task.truth["reference"]
    assert (reference > constant) == METRICS[task.metric].higher_is_better
    assert reference != constant


@pytest.mark.skipif(not (DATA / "dsbench_modeling_train.json").is_file(), reason="the real texts are missing")
def test_the_real_texts_with_data_made_up_are_corrected_with_a_reason(tmp_path: Path) -> None:
    root = plain_release(tmp_path / "release", texts=False)
    for name in ("train", "eval", "cleaned_prompts"):
        (root / f"dsbench_modeling_{name}.json").symlink_to(DATA / f"dsbench_modeling_{name}.json")
    corrected = [text for added in adding.add("dsbench", root) for text in added.corrected]
    for name, kind in (
        ("playground-series-s4e2", "data_type 'regression' is wrong"),
        ("playground-series-s3e13", "data_type 'regression' is wrong"),
        ("tweet-sentiment-extraction", "data_type 'regression' is wrong"),
        ("titanic", "a column 'Transported' that no table has"),
    ):
        assert any(text.startswith(name) and kind in text for text in corrected), (name, corrected)
    assert not any("metric" in text and "is wrong: its text" in text for text in corrected), corrected
    tasks = load_tasks("dsbench", "train")
    assert "Survived" in tasks.get("titanic").prompt
    release = Release(root)
    assert (len(release.names("train")), len(release.names("eval"))) == (67, 8)  # oct-2021 is not DSBench's
    left_out = {each.where: each.reason for added in recorded("dsbench") for each in added.left_out}
    assert "does not exist" in left_out["tabular-playground-series-oct-2021"]


@pytest.mark.parametrize("option", [["--split", "eval"], ["--drop-overlap"]])
def test_an_option_for_problems_is_refused_before_anything_is_read(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["data", "add", "dsbench", str(tmp_path / "nowhere"), *option]) != 0
    assert "a release of dsbench is added whole" in capsys.readouterr().err
