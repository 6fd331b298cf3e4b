"""The real DSBench layout: releases of the same form, sound and broken, and the real texts if available."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Callable
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
from mappa_env.grading.predictions import answers_of
from mappa_env.grading.submission import grade_submission, score_submission
from mappa_env.grading.tabular import columns_of, score_of
from mappa_env.parsing import parse
from mappa_env.registration import card_of
from mappa_env.scripted import make_team
from mappa_env.types import Task
from paths import DATA
from releases import competition, plain_release
from warm_runner import run_warm

WAVE = [(i * 37) % 60 for i in range(60)]


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


def perfect(task: Task) -> bytes:
    return str(task.truth["answers_csv"]).encode()


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


@pytest.mark.parametrize("label", ["None", "NA", "null", "nan"])
def test_a_class_may_be_called_like_a_missing_value(tmp_path: Path, label: str) -> None:
    root = tmp_path / "release"
    rows: list[list[object]] = [[i, i % 10, label if i % 10 < 7 else "Yes"] for i in range(90)]
    rows[5][2] = ""
    names = ["PassengerId", "Spa", "Transported"]
    competition(root, "spaceship-titanic", names, rows, "sample_submission.csv", base=root)
    task = dsbench.load(str(root)).get("spaceship-titanic")
    assert task.truth["labels"] == sorted([label, "Yes"])
    assert task.truth["constant"] == pytest.approx(0.7)
    assert task.truth["reference"] > 0.9
    header, *lines = perfect(task).decode().splitlines()
    cells = [f"{line.split(',')[0]},{'Yes' if n == 0 else label}" for n, line in enumerate(lines)]
    assert grade_submission(task, "\n".join([header, *cells]).encode()).score < 0.3


@pytest.mark.parametrize("word", ["nan", "NA", "None", " NULL ", "+nan"])
@pytest.mark.parametrize("file", ["train.csv", "test_answer.csv"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("titanic", "numbers"),
        ("spaceship-titanic", "booleans"),
        ("porto-seguro-safe-driver-prediction", "numbers"),
        ("lmsys-chatbot-arena", "numbers"),
    ],
)
def test_a_missing_value_beside_numbers_is_not_a_class(
    tmp_path: Path, name: str, kind: str, file: str, word: str
) -> None:
    root = plain_release(tmp_path / "release", only=(name,))
    path = root / "answers" / name / file if file == ANSWERS else root / "data_resplit" / name / file
    target = 1 if file == ANSWERS else 2
    rewrite(path, lambda rows: [rows[at].__setitem__(target, word) for at in (4, 9)])
    with pytest.raises(DataError, match=re.escape(f"{file}, row 4, column ")) as caught:
        dsbench.load(str(root))
    assert f"{word!r} is a missing value, for all other labels are {kind}. Leave the cell" in str(
        caught.value
    )


def test_nor_is_it_one_of_two_classes(tmp_path: Path) -> None:
    rows: list[list[object]] = [[i, w, "nan" if w > 30 else 1] for i, w in enumerate(WAVE)]
    competition(tmp_path, "cat-in-the-dat", ["id", "x", "target"], rows, "sample_submission.csv")
    with pytest.raises(DataError, match="column 'target': 'nan' is a missing value"):
        dsbench.load(str(tmp_path))


# -- one broken thing at a time ---------------------------------------------------------------------------

BIKE = "bike-sharing-demand"
Break = Callable[[Path, Path], object]


def rewrite(path: Path, change: Callable[[list[list[str]]], object]) -> None:
    rows = [line.split(",") for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("\n".join(",".join(row) for row in rows) + "\n")


def in_file(name: str, change: Callable[[list[list[str]]], object]) -> Break:
    """Change the rows of a table, or of the answers."""
    return lambda data, answers: rewrite(answers if name == "test_answer.csv" else data / name, change)


def with_bytes(name: str, content: bytes) -> Break:
    return lambda data, answers: (answers if name == "test_answer.csv" else data / name).write_bytes(content)


def with_index(path: Path, name: str = "") -> None:
    """The table as pandas writes it with its index."""
    rewrite(path, lambda rows: [row.insert(0, str(n - 1) if n else name) for n, row in enumerate(rows)])


@pytest.mark.parametrize(("kind", "what"), [("/dev/zero", "a device"), ("nothing", "a link to nothing")])
def test_what_is_no_file_is_called_what_it_is(tmp_path: Path, kind: str, what: str) -> None:
    root = plain_release(tmp_path / "release", only=("titanic",))
    train = root / "data_resplit" / "titanic" / "train.csv"
    train.unlink()
    train.symlink_to(kind)
    with pytest.raises(DataError, match=rf"train\.csv is {what}"):
        adding.add("dsbench", root)
    with pytest.raises((DataError, DataMissingError), match=what):
        adding.add("aime", train)


SAMPLE, ANSWERS = "sampleSubmission.csv", "test_answer.csv"
BROKEN: list[tuple[Break, str | None]] = [
    (with_bytes(ANSWERS, b""), "test_answer.csv is empty"),
    (with_bytes(ANSWERS, b"datetime,count\n"), "test_answer.csv has no rows"),
    (with_bytes(ANSWERS, b"\x80\x03]q\x00."), "test_answer.csv, line 1: "),
    (with_bytes(ANSWERS, b"datetime,count\n1,caf\xe9\n"), "test_answer.csv, line 2: not UTF-8"),
    (with_bytes("train.csv", b"datetime,temp,count\n1,2,3\n1,2,\xff\n"), "train.csv, line 3: not UTF-8"),
    (with_bytes("test.csv", b"datetime,temp\n1,\xc3"), "test.csv, line 2: not UTF-8"),
    (with_bytes("test.csv", b"datetime,temp\n1,\x00\n"), "test.csv, line 2: a NUL"),
    (with_bytes("train.csv", b"datetime,temp,count\n"), "train.csv has no rows"),
    (in_file(ANSWERS, lambda rows: [row.pop() for row in rows]), "test_answer.csv has the columns"),
    (in_file(ANSWERS, lambda rows: rows[4].pop()), "test_answer.csv, row 4: 1 cells"),
    (
        in_file(ANSWERS, lambda rows: rows[3].__setitem__(1, "")),
        "test_answer.csv, row 3, column 'count': .*empty",
    ),
    (in_file(ANSWERS, lambda rows: rows[3].__setitem__(0, " ")), "test_answer.csv, row 3: the id is empty"),
    (
        in_file(ANSWERS, lambda rows: rows[3].__setitem__(1, "many")),
        "row 3, column 'count': rmsle needs numbers",
    ),
    (
        in_file(ANSWERS, lambda rows: rows[3].__setitem__(1, "nan")),
        "row 3, column 'count': rmsle needs numbers",
    ),
    (
        in_file(ANSWERS, lambda rows: rows[3].__setitem__(1, "-4")),
        "row 3, column 'count': rmsle needs values >= 0",
    ),
    (
        in_file(ANSWERS, lambda rows: rows[3].__setitem__(0, rows[2][0])),
        "row 3: the id .* is already in row 2",
    ),
    (in_file(ANSWERS, lambda rows: rows[3].__setitem__(0, "x")), "row [0-9]+: the id .* is not in"),
    (in_file(ANSWERS, lambda rows: rows.pop()), "is not in .*test_answer.csv"),
    (in_file("test.csv", lambda rows: rows.pop()), "test.csv has 19 rows, but .*test_answer.csv has 20"),
    (in_file("test.csv", lambda rows: rows[3].__setitem__(0, "x")), "test.csv, row 3: the id 'x' is not in"),
    (
        in_file("test.csv", lambda rows: rows[2].__setitem__(0, rows[1][0])),
        "test.csv, row 2: the id .* already",
    ),
    (
        in_file("test.csv", lambda rows: [row.append("count" if row is rows[0] else "1") for row in rows]),
        "test.csv has the target",
    ),
    (in_file("train.csv", lambda rows: rows[5].pop()), "train.csv, row 5: 2 cells, but the header has 3"),
    (in_file("test.csv", lambda rows: rows[5].pop()), "test.csv, row 5: 1 cells, but the header has 2"),
    (
        in_file("test.csv", lambda rows: [row.append("Count " if row is rows[0] else "1") for row in rows]),
        "test.csv has the column 'Count ', which is the target 'count' but for case",
    ),
    (in_file("test.csv", lambda rows: rows[5].append("9")), "test.csv is not a CSV table: .*line 6"),
    (in_file("test.csv", lambda rows: [row.append("9") for row in rows[1:]]), "test.csv, row 1: more cells"),
    (in_file("test.csv", lambda rows: [row.append("") for row in rows[1:]]), "test.csv, row 1: more cells"),
    (in_file("test.csv", lambda rows: rows[1].append("")), "test.csv, row 1: more cells"),
    (in_file("test.csv", lambda rows: rows[5].append("")), "test.csv is not a CSV table: .*line 6"),
    (
        in_file(
            "test.csv",
            lambda rows: [
                row.__setitem__(slice(None), [str(n), *row[1:], ""]) for n, row in enumerate(rows[1:])
            ],
        ),
        "test.csv, row 1: more cells",
    ),
    (in_file("train.csv", lambda rows: [row.append("") for row in rows[1:]]), "train.csv, row 1: more cells"),
    (in_file("train.csv", lambda rows: rows[0].__setitem__(2, "counts")), None),
    (in_file("train.csv", lambda rows: [row.pop() for row in rows]), "train.csv has no column 'count'"),
    (
        in_file("train.csv", lambda rows: rows[0].__setitem__(1, "count")),
        "train.csv has the column 'count' 2 times",
    ),
    (
        in_file("train.csv", lambda rows: rows[7].__setitem__(2, "lots")),
        "train.csv, row 7, column 'count': rmsle needs numbers",
    ),
    (
        in_file("train.csv", lambda rows: [row.__setitem__(2, "") for row in rows[1:]]),
        "train.csv has 0 rows with a target",
    ),
    (
        in_file(SAMPLE, lambda rows: rows[2].__setitem__(0, "x")),
        "sampleSubmission.csv, row 2: the id 'x' is not in",
    ),
    (in_file(SAMPLE, lambda rows: rows.pop()), "is not in .*sampleSubmission.csv"),
    (
        in_file(SAMPLE, lambda rows: rows[0].__setitem__(0, "")),
        r"sampleSubmission.csv, header: column 1 has no name\. .*index=False",
    ),
    (
        in_file(SAMPLE, lambda rows: [row.append("" if row is rows[0] else "0") for row in rows]),
        "sampleSubmission.csv, header: column 3 has no name",
    ),
    (
        lambda data, answers: [with_index(path) for path in (*data.glob("*.csv"), answers)],
        r"sampleSubmission.csv, header: column 1 has no name\. .*index=False",
    ),
    (
        lambda data, answers: [with_index(path, "Unnamed: 0") for path in (*data.glob("*.csv"), answers)],
        "test.csv has the target 'datetime': .*index=False",
    ),
    (lambda data, answers: [with_index(path) for path in (*data.glob("t*.csv"), answers)], None),
    (
        in_file(ANSWERS, lambda rows: rows.__setitem__(slice(None), [["", "a", "b"], *rows[1:]])),
        "test_answer.csv has the columns .* The first has no name.*index=False",
    ),
    (
        lambda data, answers: [
            with_index(data / "train.csv"),
            rewrite(data / "train.csv", lambda rows: [row.pop() for row in rows]),
        ],
        "train.csv has no column 'count'",
    ),
    (in_file(SAMPLE, lambda rows: [row.pop() for row in rows]), "needs an id column and a target column"),
    (lambda data, answers: (data / SAMPLE).unlink(), "has no sample submission"),
    (
        lambda data, answers: (data / SAMPLE).rename(data / "my_submission.csv"),
        r"\['my_submission.csv'\] are not named",
    ),
    (
        lambda data, answers: shutil.copy(data / SAMPLE, data / "sample_submission_2.csv"),
        "several sample submissions",
    ),
    (lambda data, answers: shutil.copy(data / SAMPLE, data / "my_submission.csv"), None),
    (in_file("test.csv", lambda rows: rows[0].__setitem__(0, " datetime")), None),
    (in_file(SAMPLE, lambda rows: rows[0].__setitem__(0, "datetime ")), "spaces around its name"),
    (lambda data, answers: answers.unlink(), "test_answer.csv does not exist"),
    (
        in_file("train.csv", lambda rows: [row.__setitem__(2, "7e0") for row in rows[1:]]),
        "train.csv, column 'count': all targets are '7': nothing can be learned",
    ),
    (
        in_file("train.csv", lambda rows: [row.pop(1) for row in rows]),
        "train.csv has no column but 'datetime', 'count': nothing can be learned",
    ),
    (
        in_file("test.csv", lambda rows: [row.pop() for row in rows]),
        "test.csv has no column but 'datetime': nothing can be learned",
    ),
    (
        in_file("test.csv", lambda rows: rows[0].__setitem__(1, "heat")),
        "train.csv and .*test.csv have no column in common to learn from",
    ),
    *(
        (
            in_file(name, lambda rows, cell=cell: rows[6].__setitem__(1, cell)),  # type: ignore[misc]
            f"{name}, row 6, column 'temp': an infinite number",
        )
        for name in ("train.csv", "test.csv")
        for cell in ("inf", "-Infinity", "1e400")
    ),
    (
        in_file("train.csv", lambda rows: [row.append("temp" if row is rows[0] else "1") for row in rows]),
        "train.csv has the column 'temp' 2 times",
    ),
    (lambda data, answers: (data.parents[1] / "task" / f"{BIKE}.txt").unlink(), "it has no text"),
    (lambda data, answers: (data.parents[1] / "task" / f"{BIKE}.txt").write_text(" \n"), "is empty"),
    (lambda data, answers: (data.parents[1] / "task" / f"{BIKE}.txt").write_bytes(b"\xff"), "UTF-8"),
]


@pytest.mark.parametrize(("damage", "reason"), BROKEN)
def test_what_a_later_step_would_fail_on_is_found_with_file_and_row(
    tmp_path: Path, damage: Break, reason: str | None
) -> None:
    root = plain_release(tmp_path / "release", only=(BIKE, "titanic"))
    data, answers = root / "data_resplit" / BIKE, root / "answers" / BIKE / ANSWERS
    damage(data, answers)
    tasks = dsbench.load(str(root))
    if reason is None:
        task = tasks.get(BIKE)
        assert grade_submission(task, perfect(task)).score == 1.0
        return
    assert re.search(reason, tasks.skipped[BIKE]), tasks.skipped[BIKE]
    assert list(tasks.ids) == ["titanic"]


def test_truth_that_tells_nothing_is_left_out(tmp_path: Path) -> None:
    ids = list(range(30))
    for name, values, reason in (
        ("cat-in-the-dat", ["1"] * 30, "roc_auc needs two classes"),
        ("playground-series-s4e5", ["0.5"] * 30, "of a single value"),
        ("playground-series-s3e13", ["Yellow Fever", "Dengue"] * 15, "labels without spaces"),
        ("playground-series-s3e5", ["low", "high"] * 15, "numeric labels"),
        ("playground-series-s4e2", ["True", "False"] * 10 + ["1", "0"] * 5, "have no label in common"),
    ):
        root = tmp_path / name
        rows = [[i, i % 7, value] for i, value in zip(ids, values, strict=True)]
        competition(root, name, ["id", "x", "y"], rows, "sample_submission.csv")
        with pytest.raises(DataError, match=reason):
            dsbench.load(str(root))


ARENA, DEFECT = "lmsys-chatbot-arena", "playground-series-s3e18"
WINNERS = ["id", "length", "winner_model_a", "winner_model_b", "winner_tie"]
DEFECTS = ["id", "x", "EC1", "EC2"]


@pytest.mark.parametrize(
    ("name", "columns", "row"),
    [
        (ARENA, WINNERS, lambda w: [int(w < 20), int(20 <= w < 40), "Y" if w >= 40 else "N"]),
        (ARENA, WINNERS, lambda w: [w < 20, 20 <= w < 40, int(w >= 40)]),
        (DEFECT, DEFECTS, lambda w: [int(w > 30), "Yes" if w > 20 else "No"]),
        (DEFECT, DEFECTS, lambda w: ["Pos" if w > 30 else "Neg", "Yes" if w > 20 else "No"]),
        (DEFECT, DEFECTS, lambda w: [0.5 + (w > 30), w > 20]),
    ],
)
def test_each_target_has_classes_of_its_own(
    tmp_path: Path, name: str, columns: list[str], row: Callable[[int], list[object]]
) -> None:
    rows = [[i, w, *row(w)] for i, w in enumerate(WAVE)]
    competition(tmp_path, name, columns, rows, "sample_submission.csv")
    added = adding.add("dsbench", tmp_path)
    assert sum(each.tasks for each in added) == 1
    task = dsbench.load(str(tmp_path)).get(name)
    assert task.truth["constant"] != task.truth["reference"]
    truth = answers_of(task).values
    assert score_of(task.metric, truth, truth) == pytest.approx(METRICS[task.metric].ideal)
    numbers = [[row[0], *map(float, values)] for row, values in zip(cells_of(task), truth, strict=True)]
    text = "\n".join(",".join(map(str, each)) for each in [[columns[0], *columns[2:]], *numbers])
    assert grade_submission(task, text.encode()).score == 1.0


def cells_of(task: Task) -> list[list[str]]:
    return [line.split(",") for line in perfect(task).decode().splitlines()[1:]]


def test_one_bad_competition_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One class has three names; and a check that itself fails is no reason to lose a release."""
    root = plain_release(tmp_path / "release", only=("titanic", BIKE))
    rows = [[i, w, int(w < 20), int(20 <= w < 40), "NYM"[w // 20]] for i, w in enumerate(WAVE)]
    competition(tmp_path, ARENA, WINNERS, rows, "sample_submission.csv", base=root)
    tasks = dsbench.load(str(root))
    assert set(tasks.ids) == {"titanic", BIKE}
    assert re.search("test_answer.csv, column 'winner_tie': .*two classes", tasks.skipped[ARENA])

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


@pytest.mark.parametrize(
    ("learned", "answers"),
    [(("No", "Yes"), ("N", "Y")), (("A", "B"), ("B", "C")), (("0", "1"), ("Neg", "Pos"))],
)
def test_classes_of_other_names_have_no_order_in_common(
    tmp_path: Path, learned: tuple[str, str], answers: tuple[str, str]
) -> None:
    names = [learned] * 40 + [answers] * 20
    rows = [[i, w, names[i][w > 30], int(w > 20)] for i, w in enumerate(WAVE)]
    competition(tmp_path, DEFECT, DEFECTS, rows, "sample_submission.csv")
    with pytest.raises(DataError, match=r"test_answer\.csv and .*train.csv, column 'EC1': other classes"):
        dsbench.load(str(tmp_path))


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


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("titanic", "1"),
        ("spaceship-titanic", "True"),
        ("bike-sharing-demand", "3"),
        ("playground-series-s4e2", "Level_1"),
        ("playground-series-s3e13", "Illness_1"),
        ("tweet-sentiment-extraction", "salt"),
        ("us-patent-phrase-to-phrase-matching", "0.5"),
        ("porto-seguro-safe-driver-prediction", "1"),
        (ARENA, "0"),
    ],
)
@pytest.mark.parametrize("spellings", [1, 2])
def test_answers_of_one_value_are_left_out(tmp_path: Path, name: str, one: str, spellings: int) -> None:
    """Even the answers themselves would earn nothing, for they are a constant."""
    root = plain_release(tmp_path / "release", only=(name,))
    also = {"1": "1e0", "3": "3.0e0", "0.5": "5e-1", "True": " true", "0": "0e5"}.get(one, f" {one}")
    path = root / "answers" / name / ANSWERS
    texts = (one, also)
    rewrite(
        path,
        lambda rows: [
            row.__setitem__(slice(1, None), [texts[n % spellings]] * (len(row) - 1))
            for n, row in enumerate(rows[1:])
        ],
    )
    if name == ARENA:
        rewrite(path, lambda rows: [row.__setitem__(1, "1") for row in rows[1:]])
    with pytest.raises(DataError, match=f"test_answer.csv, column .*({one}|all answers|single value)"):
        dsbench.load(str(root))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("porto-seguro-safe-driver-prediction", ["-1", "0"]),
        ("us-patent-phrase-to-phrase-matching", ["1", "1.00000000000000000001"]),
        ("us-patent-phrase-to-phrase-matching", ["1", "1_0"]),
        ("us-patent-phrase-to-phrase-matching", ["1", "\u0663"]),
    ],
)
def test_answers_that_are_not_perfect_themselves_are_left_out(
    tmp_path: Path, name: str, values: list[str]
) -> None:
    rows = [[i, w, values[w > 30]] for i, w in enumerate(WAVE)]
    competition(tmp_path, name, ["id", "x", "y"], rows, "sample_submission.csv")
    with pytest.raises(DataError, match=r"test_answer\.csv.*column 'y': "):
        dsbench.load(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "cell", "status"),
    [
        ("playground-series-s3e13", "Illness_1", "ok"),
        ("playground-series-s3e13", "Illness_1 Illness_2  Illness_0 Illness_4", "ok"),
        ("playground-series-s3e13", "Illness_1 Flu", "values"),
        ("playground-series-s3e13", " ", "values"),
        ("tweet-sentiment-extraction", "", "ok"),
        ("tweet-sentiment-extraction", "any text, quoted", "ok"),
        ("us-patent-phrase-to-phrase-matching", "-7", "ok"),
        ("us-patent-phrase-to-phrase-matching", "", "values"),
        ("us-patent-phrase-to-phrase-matching", "1_0", "values"),
        ("us-patent-phrase-to-phrase-matching", "\u0661\u0660", "values"),
        ("us-patent-phrase-to-phrase-matching", "\u00a01", "values"),
        ("bike-sharing-demand", "1_0", "values"),
        ("lmsys-chatbot-arena", "0.1_0", "values"),
        ("bike-sharing-demand", "-0.5", "ok"),
        ("bike-sharing-demand", "-1", "range"),
        ("lmsys-chatbot-arena", "1.01", "range"),
        ("lmsys-chatbot-arena", "0", "ok"),
        ("porto-seguro-safe-driver-prediction", "-1e6", "ok"),
        ("porto-seguro-safe-driver-prediction", "1e16", "range"),
        ("spaceship-titanic", "TRUE", "ok"),
        ("spaceship-titanic", "0", "ok"),
        ("spaceship-titanic", "yes", "values"),
        ("playground-series-s4e2", "level_1", "values"),
    ],
)
def test_each_metric_has_its_rules_for_a_cell(
    all_kinds: dsbench.DSBenchTasks, name: str, cell: str, status: str
) -> None:
    task = all_kinds.get(name)
    header, *rows = [line.split(",") for line in perfect(task).decode().splitlines()]
    filled = [[row[0], *(f'"{cell}"' for _ in row[1:])] for row in rows]
    text = "\n".join(",".join(row) for row in [header, *filled]).encode()
    scored = score_submission(task, text)
    assert scored.status == status, scored
    assert (scored.score is None) == (status != "ok")


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> dsbench.DSBenchTasks:
    return dsbench.load(str(plain_release(tmp_path_factory.mktemp("kinds") / "release")))


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


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("titanic", "yes"),
        ("playground-series-s4e2", "nan"),  # beside words it is a class
        ("spaceship-titanic", "1"),  # beside True and False it is a class of its own
        ("playground-series-s3e13", "Flu"),
    ],
)
def test_labels_that_nobody_can_learn_are_reported_with_their_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, label: str
) -> None:
    root = plain_release(tmp_path / "release", only=(name,))
    path = root / "answers" / name / ANSWERS
    rewrite(path, lambda rows: [rows[at].__setitem__(1, label) for at in (4, 9)])
    assert cli.main(["data", "add", "dsbench", str(root)]) == 0
    said = capsys.readouterr().out
    assert f"note: {name}: {path}, row 4, column " in said
    assert f"the label {label!r} is nowhere in train.csv; 2 of 20 answers have such a label" in said
    assert "corrected:" not in said
    (added,) = (each for each in recorded("dsbench") if each.tasks)
    assert sum("is nowhere in" in text for text in added.noted) == 1
