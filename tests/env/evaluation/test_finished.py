"""Only finished evaluations with the figures of their episodes are ranked or reported."""

from __future__ import annotations

import json
import re
import shlex
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
        (lambda row: row.update(task_id="another"), "says tasks=3"),
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
