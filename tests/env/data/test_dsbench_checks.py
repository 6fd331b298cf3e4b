"""What is wrong with a release of DSBench is found before an episode, with file, row and reason."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mappa_env import cli
from mappa_env.data import adding
from mappa_env.data.store import recorded
from mappa_env.data.tabular import dsbench
from mappa_env.errors import DataError, DataMissingError
from mappa_env.grading.metrics import METRICS
from mappa_env.grading.predictions import answers_of
from mappa_env.grading.submission import grade_submission, score_submission
from mappa_env.grading.tabular import score_of
from mappa_env.types import Task
from releases import ANSWERS, BIKE, WAVE, WINNERS, competition, perfect, plain_release, rewrite


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))


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


Break = Callable[[Path, Path], object]


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


SAMPLE = "sampleSubmission.csv"


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
