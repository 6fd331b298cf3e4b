"""Files of the user that are damaged in any way end a command with one line that names the file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mappa_env.cli import main

ENV = "mappa/MathChat-v0"
DEEP = "[" * 100_000


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "store"


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evaluation") / "e"
    arguments = ["--model", "constant:x", "--sandbox", "null", "--limit", "2", "--out", str(out)]
    assert main(["eval", ENV, *arguments]) == 0
    return out


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main([str(each) for each in arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("mappa-env: ")
    return said


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "{}",
        "[]",
        '{"models": {}, "tasks": "eval"}',
        '{"models": {"*": 1}, "tasks": "eval"}',
        '{"models": {"*": {}}, "tasks": "eval"}',
        '{"models": {"*": {"name": 1}}, "tasks": "eval"}',
        '{"models": {"*": {"name": "m"}}}',
        '{"models": {"*": {"name": "m"}}, "tasks": "eval", "options": 1}',
        "1" * 5000,
    ],
)
@pytest.mark.parametrize("command", ["leaderboard", "contamination"])
def test_settings(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str
) -> None:
    folder = copied(evaluated, tmp_path / "e")
    (folder / "settings.json").write_text(text)
    assert "settings.json" in refusal(capsys, command, folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda row: row | {"success": "yes"}, "success must be bool, found 'yes'"),
        (lambda row: row | {"success": 1}, "success must be bool"),
        (lambda row: row | {"score": None}, "score must be int or float"),
        (lambda row: row | {"sample": "0"}, "sample must be int"),
        (lambda row: row | {"sample": [0]}, "sample must be int"),
        (lambda row: row | {"answer": {}}, "answer must be"),
        (lambda row: row | {"metrics": {"a": "b"}}, "metrics must be"),
        (lambda row: row | {"rewards": [1]}, "no attribute"),
        (lambda row: row | {"flaws": {"truncated": "2"}}, "flaws must be int"),
        (lambda row: row | {"versions": {"a": 1}}, "versions must be str"),
        (lambda row: row | {"tokens": {"a": {"calls": "2"}}}, r"tokens\.calls must be int"),
        (lambda row: row | {"tokens": {"a": {"dollars": "2"}}}, r"tokens\.dollars must be"),
        (lambda row: row | {"tokens": 3}, "no attribute"),
        (lambda row: row | {"more": 3}, "more"),
        (lambda row: [row], "."),
        (lambda row: {}, "env"),
    ],
)
def test_episodes(
    evaluated: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, object]], object],
    named: str,
) -> None:
    folder = copied(evaluated, tmp_path / "e")
    path = folder / "episodes.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(change(json.loads(first))), *others]) + "\n")
    said = refusal(capsys, "leaderboard", folder)
    assert "episodes.jsonl line 1 is no episode of an evaluation (" in said
    assert re.search(named, said), said


@pytest.mark.parametrize("name", ["episodes.jsonl", "abandoned.jsonl"])
def test_lines_that_are_nested_too_deeply(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = copied(evaluated, tmp_path / "e")
    (folder / name).write_text(f"{DEEP}\n")
    assert f"{name} line 1" in refusal(capsys, "leaderboard", folder)


def test_years(evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    years = tmp_path / "years.json"
    for text, reason in (
        (DEEP, "nested too deeply"),
        ('{"a": 1899}', "'a' is of 1899, not of 1900 to 2100"),
        ('{"a": 2000, "b": 2101}', "'b' is of 2101"),
        ('{"a": true}', "JSON object"),
        ('{"a": 1e3}', "JSON object"),
    ):
        years.write_text(text)
        assert reason in refusal(capsys, "contamination", evaluated, "--years", years)
    tasks = [json.loads(line)["task_id"] for line in (evaluated / "episodes.jsonl").read_text().splitlines()]
    dated = json.dumps({task: 2000 + n for n, task in enumerate(tasks)})
    years.write_bytes(b"\xef\xbb\xbf" + dated.encode())
    assert main(["contamination", str(evaluated), "--years", str(years)]) == 0


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        '{"path": ' * 5000,
        '{"path": "x", "source": "y", "tasks": 1e400, "left_out": [], "files": {}}',
        '{"path": "x", "source": "y", "tasks": 1, "left_out": [3], "files": {}}',
    ],
)
@pytest.mark.parametrize("command", [["data", "ls"], ["data", "verify"]])
def test_records_of_added_data(
    store: Path, capsys: pytest.CaptureFixture[str], command: list[str], text: str
) -> None:
    (store / "aime").mkdir(parents=True)
    (store / "aime" / "train.added.json").write_text(text)
    assert "train.added.json is not a record of added data" in refusal(capsys, *command)


def test_a_broken_record_hides_no_other(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps({"prompt": f"What is {n} + 1?", "answer": n + 1}) for n in range(3)]
    (tmp_path / "own.jsonl").write_text("\n".join(rows))
    assert main(["data", "add", "amc", str(tmp_path / "own.jsonl")]) == 0
    assert main(["data", "add", "math", str(tmp_path / "own.jsonl")]) == 0
    (store / "amc" / "train.added.json").write_text(DEEP)
    for command in ("ls", "verify"):
        capsys.readouterr()
        assert main(["data", command]) == 2
        found = capsys.readouterr()
        assert "math" in found.out
        assert "amc/train.added.json is not a record" in found.err
    assert main(["list"]) == 0
    assert "amc/train.added.json is not a record" in capsys.readouterr().out
    os.mkfifo(store / "math" / "eval.added.json")
    assert main(["data", "ls"]) == 2
    assert "is a named pipe" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 2000, "env: !!int x", "\0"])
def test_the_config_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    trace = tmp_path / "run" / "traces" / "t.jsonl"
    trace.parent.mkdir(parents=True)
    team = ["--team", "faulty", "--record", str(trace), "--sandbox", "null"]
    assert main(["play", ENV, *team]) == 0
    config = tmp_path / "run" / "config.yaml"
    config.write_text(text)
    assert "config.yaml is not a readable recipe" in refusal(capsys, "coach", "cost", config)
    assert "config.yaml is not the config of a run" in refusal(capsys, "why", trace)


@pytest.mark.parametrize("coach", ["{" * 2000, "{name: !!int x}", "{name: 2020-13-45}"])
def test_specifications(capsys: pytest.CaptureFixture[str], coach: str) -> None:
    said = refusal(capsys, "eval", ENV, "--model", "constant:x", "--coach", coach)
    assert "--coach" in said
    assert "is not valid YAML" in said
