"""RPG and completion by their published definition, and submissions that would deceive DSBench's scripts."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env import cli
from mappa_env.data import adding
from mappa_env.data.tabular import dsbench
from mappa_env.data.tabular.dsbench.competitions import competitions
from mappa_env.data.tabular.dsbench.scoring import Report, score_folder
from mappa_env.errors import DataError, DataMissingError
from mappa_env.grading.metrics import METRICS
from mappa_env.grading.rpg import gain, rpg
from mappa_env.types import Task
from paths import DATA
from releases import KINDS, competition, plain_release

ARCHIVE = DATA / "save_performance"
BIKE, SHIP = "bike-sharing-demand", "spaceship-titanic"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))


def results(folder: Path, numbers: dict[str, object]) -> None:
    for name, number in numbers.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "result.txt").write_text(str(number))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The layout of DSBench's archive: each baseline is half way, and the model is better on three tasks."""
    root = tmp_path / "download" / "save_performance"
    best = {name: METRICS[each.published].ideal for name, each in competitions().items()}
    results(root / "GT", dict(best))
    results(root / "baseline", {name: 0.5 for name in best})
    results(
        root / "model",
        {"titanic": 0.75, BIKE: 0.25, "cat-in-the-dat": 0.3, "santander-customer-satisfaction": "nan"},
    )
    return root


def no_task(name: str) -> Task:
    raise DataMissingError(f"no data of {name}")


def test_gain_is_the_published_formula() -> None:
    for score, baseline, best, wanted in (
        (0.8, 0.5, 1.0, 0.6),
        (0.4, 0.5, 1.0, 0.0),
        (5.0, 20.0, 0.0, 0.75),
        (25.0, 20.0, 0.0, 0.0),
        (1.2, 0.5, 1.0, 1.4),  # not capped
        (math.nan, 0.5, 1.0, 0.0),
        (None, 0.5, 1.0, 0.0),
        (1.0, 1.0, 1.0, 1.0),
        (0.9, 1.0, 1.0, 0.0),
    ):
        assert gain(score, baseline, best) == pytest.approx(wanted)
    assert rpg([0.0, 1.4, 0.4]) == pytest.approx(0.6)
    assert rpg([0.0, 1.4, 0.4], capped=True) == pytest.approx(1.4 / 3)
    assert rpg([]) == 0.0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=74))
def test_the_capped_mean_is_never_above_one_or_the_other(gains: list[float]) -> None:
    assert 0 <= rpg(gains, capped=True) <= min(1.0, rpg(gains)) + 1e-12


@pytest.mark.parametrize(
    "where", ["download", "download/save_performance", "download/save_performance/model"]
)
def test_result_tables_give_rpg_and_completion(archive: Path, where: str) -> None:
    (report,) = score_folder(archive.parents[1] / where, no_task)
    assert (report.model, report.completed, len(report.rows)) == ("model", 4, 74)
    assert report.rpg == pytest.approx((0.5 + 0.5) / 74)
    by_name = {row.name: row for row in report.rows}
    wanted = {"titanic": "ok", "santander-customer-satisfaction": "nan", "playground-series-s3e1": "missing"}
    assert {name: by_name[name].status for name in wanted} == wanted


def test_impossible_and_unknown_results_are_named_and_count_nothing(archive: Path) -> None:
    (archive / "model" / "titanic" / "result.txt").write_text("1.5")
    (archive / "model" / BIKE / "result.txt").write_text("-3")
    results(archive / "model", {"titanik": 1.0})
    (report,) = score_folder(archive, no_task)
    by_name = {row.name: row for row in report.rows}
    assert report.rpg == 0.0
    assert (by_name["titanic"].status, by_name[BIKE].status) == ("impossible", "impossible")
    assert "0..1, found 1.5" in by_name["titanic"].reason
    assert report.unknown == ("'titanik' Did you mean 'titanic'?",)


@pytest.mark.parametrize(
    ("damage", "error", "reason"),
    [
        (
            lambda root: (root / "GT/titanic/result.txt").unlink(),
            DataMissingError,
            "GT/titanic/result.txt does not",
        ),
        (
            lambda root: (root / "baseline/titanic/result.txt").write_text("nan"),
            DataError,
            "must be a finite number",
        ),
        (
            lambda root: (root / "GT/titanic/result.txt").write_text("__import__('os')"),
            DataError,
            "one number",
        ),
        (lambda root: shutil.rmtree(root / "model"), DataError, "no folder of a model"),
        (lambda root: shutil.rmtree(root / "GT"), DataMissingError, "has neither <competition>/result.txt"),
    ],
)
def test_broken_tables_are_refused_with_their_file(
    archive: Path, damage: Callable[[Path], object], error: type[Exception], reason: str
) -> None:
    damage(archive)
    with pytest.raises(error, match=reason):
        score_folder(archive, no_task)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("__import__('os')"),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text("1" * 2000),
        lambda path: swap_for_link(path),
    ],
)
def test_a_bad_result_is_reported_and_all_else_is_scored(
    archive: Path, damage: Callable[[Path], object]
) -> None:
    shutil.copytree(archive / "model", archive / "other")
    damage(archive / "model" / "titanic" / "result.txt")
    model, other = score_folder(archive, no_task)
    (row,) = (row for row in model.rows if row.name == "titanic")
    assert (row.status, row.completed, row.gain) == ("unreadable", False, 0.0)
    assert "model/titanic/result.txt must hold one number" in row.reason
    assert (model.completed, model.rpg) == (3, pytest.approx(0.5 / 74))
    assert (other.completed, other.rpg) == (4, pytest.approx(1 / 74))


def test_a_zip_archive_is_to_be_unpacked(archive: Path, tmp_path: Path) -> None:
    packed = Path(shutil.make_archive(str(tmp_path / "save_performance"), "zip", archive.parent))
    with pytest.raises(DataMissingError, match="is a zip archive; unpack it"):
        score_folder(packed, no_task)
    with pytest.raises(DataMissingError, match="is a zip archive; unpack it"):
        score_folder(archive / "model", no_task, packed)


@pytest.mark.parametrize("cell", ["nan", "9" * 400, "many", ""])
def test_a_sample_that_cannot_be_scored_is_named_when_it_is_added(tmp_path: Path, cell: str) -> None:
    root = plain_release(tmp_path / "release", only=(BIKE, "titanic"))
    sample = root / "data_resplit" / BIKE / "sampleSubmission.csv"
    lines = sample.read_text().splitlines()
    sample.write_text("\n".join([*lines[:1], lines[1].rsplit(",", 1)[0] + f",{cell}", *lines[2:]]))
    added = adding.add("dsbench", root)
    (said,) = [text for split in added for text in split.noted]
    assert not any(split.corrected for split in added)
    assert said.startswith(f"{BIKE}: the sample submission of {BIKE} has no score (")
    assert "--tables" in said


def swap_for_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


# -- submissions ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain_release(tmp_path_factory.mktemp("dsbench") / "release")


def answers(release: Path, name: str) -> str:
    return str(dsbench.load_all(str(release)).get(name).truth["answers_csv"])


def submitted(release: Path, folder: Path, name: str, text: str) -> Report:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.csv").write_text(text)
    (report,) = score_folder(folder, dsbench.load_all(str(release)).usable)
    return report


def test_perfect_submissions_and_the_samples_have_gain_one_and_zero(release: Path, tmp_path: Path) -> None:
    tasks = dsbench.load_all(str(release))
    for name in KINDS:
        (tmp_path / "best" / name).mkdir(parents=True)
        (tmp_path / "best" / name / "submission.csv").write_text(str(tasks.get(name).truth["answers_csv"]))
    (report,) = score_folder(tmp_path / "best", tasks.usable)
    # Samples without a legal label have no baseline; that is said, and the gain is nothing.
    no_baseline = {row.name for row in report.rows if row.status == "no_baseline"}
    assert no_baseline == {"playground-series-s4e2", "playground-series-s3e13"}
    assert all("--tables" in row.reason for row in report.rows if row.name in no_baseline)
    assert report.rpg == pytest.approx((len(KINDS) - len(no_baseline)) / 74)
    assert report.completed == len(KINDS)


def test_published_tables_give_the_scale_of_submissions(release: Path, archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "playground-series-s3e13.csv").write_text(answers(release, "playground-series-s3e13"))
    (report,) = score_folder(folder, dsbench.load_all(str(release)).usable, archive.parent)
    row = next(row for row in report.rows if row.status != "missing")
    assert (row.metric, row.score, row.baseline, row.gain) == ("hit@3", 1.0, 0.5, 1.0)


def rows_of(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.splitlines()]


def text_of(rows: list[list[str]]) -> str:
    return "\n".join(",".join(row) for row in rows) + "\n"


EXPLOITS: dict[str, tuple[Callable[[list[list[str]]], list[list[str]]], str]] = {
    "one row": (lambda rows: rows[:2], "rows"),
    "all -5": (lambda rows: [rows[0], *([row[0], "-5"] for row in rows[1:])], "range"),
    "all -1": (lambda rows: [rows[0], *([row[0], "-1"] for row in rows[1:])], "range"),
    "all but one nan": (lambda rows: [*rows[:2], *([row[0], "nan"] for row in rows[2:])], "values"),
    "all empty": (lambda rows: [rows[0], *([row[0], ""] for row in rows[1:])], "values"),
    "infinite": (lambda rows: [rows[0], *([row[0], "inf"] for row in rows[1:])], "values"),
    "a repeated row": (lambda rows: [rows[0], *([rows[1]] * (len(rows) - 1))], "ids"),
    "no ids": (lambda rows: [row[1:] for row in rows], "columns"),
    "another id": (lambda rows: [*rows[:-1], ["x", rows[-1][1]]], "ids"),
}


@pytest.mark.parametrize("exploit", EXPLOITS)
def test_exploits_of_the_published_scripts_are_refused(release: Path, tmp_path: Path, exploit: str) -> None:
    change, status = EXPLOITS[exploit]
    report = submitted(release, tmp_path / "mine", BIKE, text_of(change(rows_of(answers(release, BIKE)))))
    row = next(row for row in report.rows if row.name == BIKE)
    assert (row.status, row.score, row.gain, row.completed) == (status, None, 0.0, False)
    assert row.reason
    assert (report.rpg, report.completed) == (0.0, 0)


def test_the_order_of_rows_does_not_count(release: Path, tmp_path: Path) -> None:
    head, *rows = rows_of(answers(release, BIKE))
    report = submitted(release, tmp_path / "mine", BIKE, text_of([head, *rows[::-1]]))
    assert next(row for row in report.rows if row.name == BIKE).gain == 1.0


def test_answers_that_are_names_have_a_best_score(tmp_path: Path) -> None:
    """Predictions of an area under a curve are numbers, whatever the classes are called."""
    name = "cat-in-the-dat"
    rows: list[list[object]] = [[i, (i * 37) % 60, "no" if (i * 37) % 60 < 30 else "yes"] for i in range(60)]
    competition(tmp_path, name, ["id", "x", "target"], rows, "sample_submission.csv")
    scores = "\n".join(f"{i},{(i * 37) % 60}" for i in range(40, 60))
    report = submitted(tmp_path, tmp_path / "mine", name, f"id,target\n{scores}\n")
    (row,) = (row for row in report.rows if row.name == name)
    assert (row.status, row.best, row.gain) == ("ok", 1.0, 1.0)


@pytest.mark.parametrize("cell", ["nan", "many"])
def test_only_the_gain_needs_a_baseline(tmp_path: Path, archive: Path, cell: str) -> None:
    name = "playground-series-s4e5"
    rows: list[list[object]] = [[i, i, i / 60] for i in range(60)]
    competition(tmp_path, name, ["id", "x", "FloodProbability"], rows, "sample_submission.csv")
    sample = tmp_path / "data" / "data_resplit" / name / "sample_submission.csv"
    sample.write_text(re.sub(",0\\b", f",{cell}", sample.read_text()))
    text = answers(tmp_path, name)
    report = submitted(tmp_path, tmp_path / "mine", name, text)
    (row,) = (row for row in report.rows if row.name == name)
    assert (row.status, row.score, row.best, row.gain, row.completed) == ("no_baseline", 1.0, 1.0, 0.0, True)
    assert "has no score" in row.reason
    assert "--tables" in row.reason
    assert (report.completed, report.rpg) == (1, 0.0)
    (report,) = score_folder(tmp_path / "mine", dsbench.load_all(str(tmp_path)).usable, archive)
    (row,) = (row for row in report.rows if row.name == name)
    assert (row.status, row.gain, row.completed) == ("ok", 1.0, True)
    refused = submitted(tmp_path, tmp_path / "mine", name, text.replace("id,", "key,"))
    (row,) = (row for row in refused.rows if row.name == name)
    assert (row.status, row.completed) == ("columns", False)


@pytest.mark.parametrize("columns", ["80", "40"])
def test_no_name_is_cut_where_the_output_is_no_terminal(
    archive: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert cli.main(["score", "dsbench", str(archive), "--each"]) == 0
    said = capsys.readouterr().out
    assert "…" not in said
    assert all(f" {name} " in said for name in competitions())


@pytest.mark.parametrize("spelled", ["1040.0", "01040", " 1040"])
def test_a_strange_id_is_named_as_the_file_spells_it(release: Path, tmp_path: Path, spelled: str) -> None:
    lines = answers(release, "titanic").splitlines()
    lines[1] = f"{spelled},1"
    report = submitted(release, tmp_path / "mine", "titanic", "\n".join(lines))
    (row,) = (row for row in report.rows if row.name == "titanic")
    assert f"1 ids are not in test.csv, such as {spelled.strip()!r}" in row.reason


@pytest.mark.parametrize("result", ["inf", "-inf", "1e400", "nan"])
def test_results_that_are_not_finite_are_null_in_json(archive: Path, tmp_path: Path, result: str) -> None:
    (archive / "model" / "titanic" / "result.txt").write_text(result)
    target = tmp_path / "scores.json"
    assert cli.main(["score", "dsbench", str(archive), "--json", str(target)]) == 0
    (report,) = json.loads(target.read_text(), parse_constant=pytest.fail)["reports"]
    (row,) = (row for row in report["rows"] if row["name"] == "titanic")
    assert (row["score"], row["gain"]) == (None, 0.0)
    assert row["reason"]


@pytest.mark.parametrize("known", ["1_0", "\u0661"])
def test_a_result_is_a_plain_number(archive: Path, known: str) -> None:
    (archive / "model" / "titanic" / "result.txt").write_text(known)
    (report,) = score_folder(archive, no_task)
    (row,) = (row for row in report.rows if row.name == "titanic")
    assert row.status == "unreadable"


def test_booleans_may_be_ones(release: Path, tmp_path: Path) -> None:
    text = answers(release, SHIP).replace("True", "1.0").replace("False", "false")
    report = submitted(release, tmp_path / "mine", SHIP, text)
    assert next(row for row in report.rows if row.name == SHIP).score == 1.0


def test_submissions_that_are_no_files_are_unreadable(release: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / f"{BIKE}.csv").symlink_to(release / "answers" / BIKE / "test_answer.csv")
    (folder / f"{SHIP}.csv").mkdir()
    (folder / "titanic.csv").write_bytes(b"x" * 3_000_000)
    (report,) = score_folder(folder, dsbench.load_all(str(release)).usable)
    found = {row.name: row.status for row in report.rows if row.status != "missing"}
    assert found == dict.fromkeys((BIKE, SHIP, "titanic"), "unreadable")


def test_the_command_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = plain_release(tmp_path / "release", only=(BIKE,))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / f"{BIKE}.csv").write_text(answers(release, BIKE))
    (folder / "readme.csv").write_text("x\n")
    adding.add("dsbench", release)
    target = tmp_path / "scores.json"
    assert cli.main(["score", "dsbench", str(folder), "--each", "--json", str(target)]) == 0
    said = capsys.readouterr().out
    assert "1/74" in said
    assert "'readme' is not a competition" in said
    (report,) = json.loads(target.read_text())["reports"]
    assert (report["completed"], report["competitions"]) == (1, 74)
    assert report["rpg"] == report["rpg_capped"] == pytest.approx(1 / 74)
    assert cli.main(["score", "dsbench", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert cli.main(["score", "dsbench", str(tmp_path / "store")]) == 2
    assert "neither <competition>/result.txt" in capsys.readouterr().err


@pytest.mark.parametrize("data", ["none added", "no release", "nothing usable", "a broken record"])
def test_submissions_without_data_to_judge_them_by_get_no_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str
) -> None:
    folder, target = tmp_path / "mine", tmp_path / "scores.json"
    folder.mkdir()
    (folder / f"{BIKE}.csv").write_text("datetime,count\n")
    command = ["score", "dsbench", str(folder), "--json", str(target)]
    said = "mappa-env data add dsbench PATH"
    if data == "no release":
        command += ["--data", str(folder)]
    elif data == "nothing usable":
        release = plain_release(tmp_path / "release", only=(BIKE,))
        shutil.rmtree(release / "answers" / BIKE)
        command += ["--data", str(release)]
        said = f"has no usable competition (all). {BIKE}: "
    elif data == "a broken record":
        (tmp_path / "store" / "dsbench").mkdir(parents=True)
        (tmp_path / "store" / "dsbench" / "train.added.json").write_text("{}")
        said = "is not a record of added data"
    assert cli.main(command) == 2
    found = capsys.readouterr()
    assert said in found.err
    assert not found.out
    assert not target.exists()


@pytest.mark.parametrize("lacks", ["data", "baseline"])
def test_a_total_that_lacks_a_gain_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lacks: str
) -> None:
    """Nobody knows what the submission would have earned: that is no 0."""
    release = plain_release(tmp_path / "release", only=(BIKE, "titanic"))
    folder, target = tmp_path / "mine", tmp_path / "scores.json"
    folder.mkdir()
    for name in (BIKE, "titanic"):
        (folder / f"{name}.csv").write_text(answers(release, name))
    sample = release / "data_resplit" / "titanic" / "sample_submission.csv"
    if lacks == "data":
        sample.unlink()
    else:
        sample.write_text(sample.read_text().replace(",0", ",nan"))
    command = ["score", "dsbench", str(folder), "--data", str(release), "--json", str(target), "--each"]
    assert cli.main(command) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"≥ {1 / 74:.6f} │ ≥ {1 / 74:.6f} │" in said
    assert ("│ ≥ 1/74 │ ≥ 1.4% │" if lacks == "data" else "│ 2/74 │ 2.7% │") in said
    assert "mine: no total: the gain of 1 of 74 competitions is not known and counts 0: titanic " in said
    assert f"mine: titanic: no_{lacks}: " in said
    (report,) = json.loads(target.read_text())["reports"]
    assert (report["rpg"], report["rpg_capped"], report["no_gain"]) == (None, None, ["titanic"])
    found = report["completed"], report["completion_rate"], report["no_data"]
    assert found == ((None, None, ["titanic"]) if lacks == "data" else (2, 2 / 74, []))
    gains = {row["name"]: row["gain"] for row in report["rows"]}
    assert (gains["titanic"], gains[BIKE], gains["cat-in-the-dat"]) == (None, 1, 0)


@pytest.mark.skipif(not ARCHIVE.is_dir(), reason="DSBench's save_performance is missing")
def test_rows_of_the_published_archive_are_reproduced() -> None:
    reports = {report.model: report for report in score_folder(ARCHIVE, no_task)}
    found = reports["gpt-3.5-turbo-0125"]
    assert round(found.rpg, 6) == 0.065184
    assert (found.completed, len(found.rows)) == (12, 74)
    assert not [row for row in found.rows if row.reason]
