"""Tasks that changed under the same ids are found out: no evaluation mixes them, and they are no rivals."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cli import main
from mappa_env.data.content import content_of
from mappa_env.data.tabular import dsbench
from mappa_env.errors import EvaluationError
from mappa_env.evaluation.contents import Contents
from mappa_env.types import Task
from releases import plain_release

AIME, AMC = "mappa/AIME-v0", "mappa/AMC-v0"


def tasks_file(path: Path, text: str = "What is", answer: int = 2) -> Path:
    """Two years, in each the problems 1 to 3."""
    rows = [
        {"id": f"aime-{year}-{n}", "prompt": f"{text} {year} minus {n}?", "answer": str(answer)}
        for year in (2000, 2020)
        for n in (1, 2, 3)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


def evaluate(out: Path, tasks: Path | str, *more: str, envs: tuple[str, ...] = (AIME,)) -> int:
    words = ["--model", "trivial:last-number", "--tasks", str(tasks), "--out", str(out), "--sandbox", "null"]
    return main(["eval", *envs, *words, *more])


def kill(folder: Path, left: int) -> None:
    """Leave what a killed process leaves after ``left`` episodes."""
    path = folder / "episodes.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:left]))
    (folder / "evaluation.json").unlink()


def forget(folder: Path) -> None:
    """Make the folder one of a version that kept no digest of tasks."""
    path = folder / "episodes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["content"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = folder / "evaluation.json"
    if results.exists():
        document: dict[str, Any] = json.loads(results.read_text())
        del document["run"]
        for figures in document["environments"]:
            del figures["content"]
        results.write_text(json.dumps(document))


def ranked(target: Path, *folders: Path) -> dict[str, list[str]]:
    assert main(["leaderboard", *map(str, folders), "--json", str(target)]) == 0
    found = json.loads(target.read_text())
    return {heading: sorted(row["name"] for row in rows) for heading, rows in found.items()}


@pytest.mark.parametrize("left", [3, 6])
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"text": "What would be"}, "text"),
        ({"answer": 3}, "answer"),
        ({"text": "So", "answer": 3}, "text and answer"),
    ],
)
def test_what_was_begun_resumes_on_the_same_tasks_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], what: str, left: int
) -> None:
    tasks, out = tasks_file(tmp_path / "t.json"), tmp_path / "e"
    assert evaluate(out, tasks) == 0
    kill(out, left)
    tasks_file(tasks, **change)
    assert evaluate(out, tasks) == 2
    said = capsys.readouterr().err
    assert re.search(
        rf"now have another {what} \(\S+ and {left - 1} more\): the task files have changed", said
    )
    assert "another --out" in said
    assert len((out / "episodes.jsonl").read_text().splitlines()) == left
    tasks_file(tasks)
    assert evaluate(out, tasks) == 0


def test_so_does_a_finished_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, out = tasks_file(tmp_path / "t.json"), tmp_path / "e"
    assert evaluate(out, tasks) == 0
    tasks_file(tasks, answer=9)
    assert evaluate(out, tasks) == 2
    assert "another answer" in capsys.readouterr().err


def test_data_that_was_added_again_under_the_same_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    add = ["data", "add", "aime", str(tasks_file(tmp_path / "t.json")), "--split", "eval"]
    assert main(add) == 0
    assert evaluate(tmp_path / "e", "eval") == 0
    kill(tmp_path / "e", 2)
    tasks_file(tmp_path / "t.json", answer=7)
    assert main(add) == 0
    assert evaluate(tmp_path / "e", "eval") == 2
    assert "now have another answer" in capsys.readouterr().err


def test_of_several_benchmarks_the_changed_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    for name in ("aime", "amc"):
        file = tasks_file(tmp_path / name / "t.json", answer=len(name))
        assert main(["data", "add", name, str(file), "--split", "eval"]) == 0
    both = (AIME, AMC)
    assert evaluate(tmp_path / "e", "eval", envs=both) == 0
    kill(tmp_path / "e", 9)
    tasks_file(tmp_path / "amc" / "t.json", text="How much is", answer=3)
    assert main(["data", "add", "amc", str(tmp_path / "amc" / "t.json"), "--split", "eval"]) == 0
    assert evaluate(tmp_path / "e", "eval", envs=both) == 2
    assert f"of {AMC} on tasks" in capsys.readouterr().err


def test_benchmarks_with_the_same_ids_are_no_rivals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both were called ``t.json`` where they were played."""
    for name, text in (("one", "What is"), ("other", "What would be"), ("again", "What is")):
        monkeypatch.chdir(tasks_file(tmp_path / name / "t.json", text).parent)
        assert evaluate(tmp_path / "out" / name, "t.json") == 0
    monkeypatch.chdir(tmp_path)
    assert evaluate(tmp_path / "out" / "elsewhere", "one/t.json") == 0
    found = ranked(tmp_path / "x.json", *(tmp_path / "out").iterdir())
    assert sorted(found.values()) == [["again", "elsewhere", "one"], ["other"]]
    assert "cannot be ranked together" in capsys.readouterr().out


@pytest.mark.parametrize("columns", ["80", "40"])
def test_no_name_is_cut_where_the_output_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    names = ["a-model-with-a-long-name-" * 6 + each for each in ("1", "2")]
    for name in names:
        assert evaluate(tmp_path / name, tasks_file(tmp_path / "t.json"), "--samples", "4") == 0
    capsys.readouterr()
    assert main(["leaderboard", *(str(tmp_path / name) for name in names)]) == 0
    said = capsys.readouterr().out
    assert "…" not in said
    assert all(f" {name} " in said for name in names)


def test_earlier_evaluations_open_in_a_group_of_their_own_and_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tasks_file(tmp_path / "t.json")
    for name in ("old", "older", "new"):
        assert evaluate(tmp_path / name, tasks) == 0
    for name in ("old", "older"):
        forget(tmp_path / name)
    folders = [tmp_path / name for name in ("old", "older", "new")]
    found = ranked(tmp_path / "x.json", *folders)
    assert sorted(found.values()) == [["new"], ["old", "older"]]
    assert any("unknown content" in heading for heading in found)
    capsys.readouterr()
    page = tmp_path / "page.html"
    for own, said in ((folders[:2], True), (folders[2:], False)):
        assert main(["leaderboard", *map(str, own), "--html", str(page)]) == 0
        assert ("it is unknown what their tasks were" in capsys.readouterr().out) == said
        assert ("it is unknown what their tasks were" in page.read_text()) == said
    kill(tmp_path / "old", 4)
    assert evaluate(tmp_path / "old", tasks) == 0
    assert sorted(ranked(tmp_path / "x.json", *folders).values()) == [["new"], ["old", "older"]]


def test_an_evaluation_of_two_tasks_with_one_id_has_no_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, out = tasks_file(tmp_path / "t.json"), tmp_path / "e"
    assert evaluate(out, tasks, "--samples", "2") == 0
    path = out / "episodes.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    content = json.loads(first)["content"]
    path.write_text(first.replace(content, content[::-1]) + "".join(others))
    assert main(["leaderboard", str(out)]) == 2
    assert "played on two tasks with this id" in capsys.readouterr().err


def test_a_reference_had_the_same_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("mine", "What is"), ("same", "What is"), ("other", "What would be")):
        assert evaluate(tmp_path / name, tasks_file(tmp_path / f"{name}.json", text)) == 0
    command = ["contamination", str(tmp_path / "mine"), "--reference"]
    assert main([*command, str(tmp_path / "same")]) == 0
    assert "only their ids" not in capsys.readouterr().out
    assert main([*command, str(tmp_path / "other")]) == 2
    assert "played other tasks of mappa/AIME-v0 under the same ids" in capsys.readouterr().err
    forget(tmp_path / "other")
    assert main([*command, str(tmp_path / "other")]) == 0
    assert "only their ids say" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "part"),
    [("train.csv", 2), ("test.csv", 2), ("test_answer.csv", 1), ("titanic.txt", 0)],
)
def test_the_files_of_a_competition_count(tmp_path: Path, file: str, part: int) -> None:
    """Of the same size, so that nothing but their bytes tells."""
    root = plain_release(tmp_path / "a" / "release", only=("titanic",))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    other = tmp_path / "b" / "release"
    before, same = (content_of(dsbench.load(str(each)).get("titanic")) for each in (root, other))
    assert before == same
    (path,) = other.rglob(file)
    path.write_text(swapped(path.read_text()) if path.suffix == ".csv" else path.read_text().swapcase())
    now = content_of(dsbench.load(str(other)).get("titanic"))
    differ = [one != two for one, two in zip(before.split("-"), now.split("-"), strict=True)]
    assert differ == [number == part for number in range(3)]


def swapped(text: str) -> str:
    """The table with two rows exchanged."""
    head, one, two, *rest = text.splitlines(keepends=True)
    return "".join([head, two, one, *rest])


def test_neither_an_id_nor_what_is_computed_counts() -> None:
    def task(own: str, answer: str, reference: float) -> Task:
        return Task(own, "1 + 1?", "rmse", truth={"answer": answer, "reference": reference}, meta={"x": {1}})

    assert content_of(task("a", "2", 0.1)) == content_of(task("b", "2", 0.2))
    assert content_of(task("a", "2", 0.1)) != content_of(task("a", "3", 0.1))


def test_a_task_that_changes_while_others_are_played_is_refused() -> None:
    contents = Contents([])
    assert contents.admit(AIME, Task("a", "1 + 1?", "exact_match")) == contents.admit(
        AIME, Task("a", "1 + 1?", "exact_match")
    )
    assert contents.admit(AMC, Task("a", "1 + 2?", "exact_match"))
    with pytest.raises(EvaluationError, match="task a of mappa/AIME-v0 has another text"):
        contents.admit(AIME, Task("a", "1 + 2?", "exact_match"))
