"""Only finished evaluations with the figures of their episodes are ranked or reported."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cli import main

ENV = "mappa/MathChat-v0"


def evaluate(out: Path, *arguments: str) -> int:
    return main(["eval", ENV, "--sandbox", "null", "--out", str(out), "--model", "constant:x", *arguments])


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    out = tmp_path / "an evaluation"
    assert evaluate(out, "--limit", "3", "--samples", "2") == 0
    return out


def refusal(capsys: pytest.CaptureFixture[str], *command: object) -> str:
    capsys.readouterr()
    assert main([str(each) for each in command]) == 2
    return capsys.readouterr().err


def kill(folder: Path, left: int, *, with_figures: bool = False) -> None:
    """Leave what a killed process leaves after ``left`` episodes."""
    path = folder / "episodes.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:left]))
    if not with_figures:
        (folder / "evaluation.json").unlink()


@pytest.mark.parametrize("left", [5, 4, 3, 2, 0])
@pytest.mark.parametrize("command", ["leaderboard", "contamination"])
def test_a_killed_evaluation_is_refused_with_the_command_that_goes_on(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, left: int
) -> None:
    kill(evaluated, left, with_figures=left == 4)
    said = refusal(capsys, command, evaluated, "--json", tmp_path / "x.json")
    assert f"{6 - left} of 6 episodes of {ENV} are missing" in said
    assert not (tmp_path / "x.json").exists()
    words = shlex.split(said.partition("Resume it with: ")[2])
    assert words[:2] == ["mappa-env", "eval"]
    assert main(words[1:]) == 0
    assert main(["leaderboard", str(evaluated)]) == 0


def test_a_reference_must_be_finished_too(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(tmp_path / "other", "--limit", "3", "--samples", "2") == 0
    kill(evaluated, 4)
    said = refusal(capsys, "contamination", tmp_path / "other", "--reference", evaluated)
    assert "2 of 6 episodes" in said


@pytest.mark.parametrize("left", [6, 4])
def test_a_folder_that_does_not_say_how_many_episodes_it_has(
    evaluated: Path, capsys: pytest.CaptureFixture[str], left: int
) -> None:
    """As earlier versions wrote it: it was finished if it has figures."""
    (evaluated / "planned.json").unlink()
    assert main(["leaderboard", str(evaluated)]) == 0
    kill(evaluated, left)
    assert f"episodes of {ENV} are missing" in refusal(capsys, "leaderboard", evaluated)
    assert evaluate(evaluated, "--limit", "3", "--samples", "2") == 0
    assert main(["leaderboard", str(evaluated)]) == 0


def test_options_and_agents_are_in_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "e"
    more = ["--agent", "solver_0=trivial:last-number", "--limit", "2", "--seed", "7", "--coach", "rubric"]
    assert evaluate(out, *more) == 0
    kill(out, 1)
    words = shlex.split(refusal(capsys, "leaderboard", out).partition("Resume it with: ")[2])
    assert words[words.index("--agent") + 1] == "solver_0=trivial:last-number"
    assert main(words[1:]) == 0
    rows = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    assert len(rows) == 2


def test_other_tasks_than_before_are_another_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tmp_path / "tasks.jsonl"

    def write(count: int) -> None:
        rows = [{"id": str(n), "prompt": f"What is {n} + 1?", "answer": n + 1} for n in range(count)]
        tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))

    write(2)
    assert evaluate(tmp_path / "e", "--tasks", str(tasks)) == 0
    write(3)
    assert evaluate(tmp_path / "e", "--tasks", str(tasks)) == 2
    assert "the task files have changed" in capsys.readouterr().err


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    first, *others = path.read_text().splitlines()
    row = json.loads(first)
    change(row)
    path.write_text("\n".join([json.dumps(row), *others]) + "\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row.update(success=True), r"says success\.mean=0\.0 of .* have success\.mean=0\.16"),
        (lambda row: row.update(score=1.0), r"says score\.mean=0\.0"),
        (lambda row: row.update(task_id="another"), r"says that the tasks of .* the digest"),
        (lambda row: row.update(score=7.5), "score must be from 0 to 1, found 7.5"),
        (lambda row: row.update(score=float("nan")), "score must be from 0 to 1, found nan"),
    ],
)
def test_an_edited_episode_is_not_ranked(
    evaluated: Path, capsys: pytest.CaptureFixture[str], change: Callable[[dict[str, Any]], object], said: str
) -> None:
    edit(evaluated / "episodes.jsonl", change)
    found = refusal(capsys, "leaderboard", evaluated)
    assert re.search(said, found) or "tasks have between" in found


def test_the_command_that_resumes_hides_no_edit(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It plays nothing, and would write results that agree with the edited episode."""
    edit(evaluated / "episodes.jsonl", lambda row: row.update(success=True))
    before = (evaluated / "evaluation.json").read_bytes()
    assert evaluate(evaluated, "--limit", "3", "--samples", "2") != 0
    assert "was changed after the evaluation" in capsys.readouterr().err
    assert (evaluated / "evaluation.json").read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [('"seed": 0', '"seed": 7', "says seed=0"), ('"constant:', '"openai:gpt@http://h/v1#', "says models=")],
)
def test_settings_of_another_evaluation_are_not_ranked(
    evaluated: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    path = evaluated / "settings.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert said in refusal(capsys, "leaderboard", evaluated)


def test_tokens_and_dollars_are_sealed(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = evaluated / "evaluation.json"
    found = json.loads(path.read_text())
    tokens = next(iter(found["environments"][0]["tokens"].values()))
    tokens["output"] += 1
    path.write_text(json.dumps(found))
    assert "was changed after the evaluation" in refusal(capsys, "leaderboard", evaluated)


def test_results_of_a_version_with_fewer_figures_are_ranked(evaluated: Path) -> None:
    """Answers whose tokens are unknown were not counted at first."""
    path = evaluated / "evaluation.json"
    found = json.loads(path.read_text())
    for tokens in found["environments"][0]["tokens"].values():
        del tokens["unknown"]
    path.write_text(json.dumps(found))
    assert main(["leaderboard", str(evaluated)]) == 0
    assert evaluate(evaluated, "--limit", "3", "--samples", "2") == 0


def test_edited_figures_are_not_ranked(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = evaluated / "evaluation.json"
    path.write_text(path.read_text().replace('"mean": 0.0', '"mean": 0.9'))
    assert "says success.mean=0.9" in refusal(capsys, "leaderboard", evaluated)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"mappa/MathChat-v0": 3}', '{"mappa/MathChat-v0": {"episodes": 0}}']
)
def test_a_damaged_plan_is_named(evaluated: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (evaluated / "planned.json").write_text(text)
    assert "planned.json" in refusal(capsys, "leaderboard", evaluated)


def test_one_evaluation_is_ranked_once(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = evaluated.parent / "link"
    again.symlink_to(evaluated)
    for folder in (evaluated, f"{evaluated}/.", again):
        assert "name it once" in refusal(capsys, "leaderboard", evaluated, folder)


def test_tasks_that_were_not_planned_are_not_ranked(
    evaluated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = evaluated / "planned.json"
    planned = json.loads(path.read_text())
    digest = planned[ENV]["tasks"]
    planned[ENV]["tasks"] = "00000000"
    path.write_text(json.dumps(planned))
    for command in ("leaderboard", "contamination"):
        said = refusal(capsys, command, evaluated)
        assert "planned.json" in said
        assert f"have the digest 00000000, but those of the episodes have {digest}" in said
    del planned[ENV]["tasks"]
    path.write_text(json.dumps(planned))
    assert "planned.json cannot be read ('tasks')" in refusal(capsys, "leaderboard", evaluated)


@pytest.mark.parametrize("command", ["leaderboard", "contamination"])
def test_without_its_results_an_evaluation_is_not_finished(
    evaluated: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (evaluated / "evaluation.json").unlink()
    said = refusal(capsys, command, evaluated)
    assert "evaluation.json is missing" in said
    words = shlex.split(said.partition("with: ")[2])
    assert main(words[1:]) == 0
    assert main(["leaderboard", str(evaluated)]) == 0


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_copy_is_ranked_once_and_named(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], shuffled: bool
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(evaluated, copy)
    if shuffled:
        path = copy / "episodes.jsonl"
        path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    capsys.readouterr()
    rows = tmp_path / "rows.json"
    assert main(["leaderboard", str(evaluated), str(copy), "--json", str(rows)]) == 0
    assert f"{copy} is left out: it is a copy of {evaluated}" in capsys.readouterr().out.replace("\n", "")
    assert [row["name"] for row in json.loads(rows.read_text())[ENV]] == [evaluated.name]


def test_the_same_evaluation_again_is_no_copy(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(tmp_path / "again", "--limit", "3", "--samples", "2") == 0
    rows = tmp_path / "rows.json"
    assert main(["leaderboard", str(evaluated), str(tmp_path / "again"), "--json", str(rows)]) == 0
    assert "left out" not in capsys.readouterr().out
    assert len(json.loads(rows.read_text())[ENV]) == 2


@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["tokens.prompt", "tokens.calls", "tokens.dollars", "sample", "seconds"])
def test_amounts_that_cannot_be_are_refused(
    evaluated: Path, capsys: pytest.CaptureFixture[str], place: str, value: float
) -> None:
    def change(row: dict[str, Any]) -> None:
        whole, _, name = place.partition(".")
        if name:
            next(iter(row[whole].values()))[name] = value
        else:
            row[whole] = value

    edit(evaluated / "episodes.jsonl", change)
    said = refusal(capsys, "leaderboard", evaluated)
    assert re.search(rf"episodes\.jsonl line 1 .*{place} must be .*found {value!r}", said)


@pytest.mark.parametrize("value", [-2, float("nan")])
def test_so_are_those_of_episodes_without_a_result(
    evaluated: Path, capsys: pytest.CaptureFixture[str], value: float
) -> None:
    row = {"env": ENV, "task_id": "1", "sample": 0, "why": "x", "tokens": {"solver_0": {"calls": value}}}
    (evaluated / "abandoned.jsonl").write_text(json.dumps(row) + "\n")
    said = refusal(capsys, "leaderboard", evaluated)
    assert re.search(rf"abandoned\.jsonl line 1 .*tokens\.calls must be .*found {value!r}", said)
