"""``mappa-rl eval --benchmark``: a trained run beside scripted teams on one leaderboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cli import main as env_main
from mappa_rl import load_config, train
from mappa_rl.cli import main
from tiny_run import TINY

ENV = "mappa/MathChat-v0"
FEW = ["--benchmark", ENV, "--limit", "5", "--samples", "2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    out = tmp_path_factory.mktemp("trained") / "tiny"
    train(load_config("demo", [*TINY, "run.steps=2"]), out)
    return out


def rows(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    return sorted(({**row, "seconds": 0} for row in found), key=lambda row: (row["task_id"], row["sample"]))


def test_a_run_before_and_after_training_stands_beside_scripted_teams(trained: Path, tmp_path: Path) -> None:
    assert main(["eval", str(trained), *FEW, "--out", str(tmp_path)]) == 0
    expert = ["eval", ENV, "--model", "scripted:expert", "--limit", "5", "--samples", "2"]
    expert += ["--prompts", "compact"]  # as the run's
    assert env_main([*expert, "--sandbox", "calculator", "--out", str(tmp_path / "expert")]) == 0
    folders = [str(tmp_path / name) for name in ("tiny-start", "tiny-step-2", "expert")]
    assert env_main(["leaderboard", *folders, "--json", str(tmp_path / "rows.json")]) == 0
    ranked = json.loads((tmp_path / "rows.json").read_text())[ENV]
    assert ranked[0]["models"] == "scripted:expert"
    assert {row["models"] for row in ranked[1:]} == {"tiny, before training", "tiny, step 2"}
    assert all(row["tasks"] == 5 and row["samples"] == 2 and row["calls"] >= 30 for row in ranked[1:])
    before, after, best = (rows(Path(folder)) for folder in folders)
    assert [row["task_id"] for row in before] == [row["task_id"] for row in after]
    assert [row["task_id"] for row in before] == [row["task_id"] for row in best]
    assert before[0]["versions"]["solver_0"] == "solver_0, before training"
    assert after[0]["versions"]["solver_0"] == "solver_0, step 2"
    assert before[0]["tokens"]["coder_0"]["output"] > 0
    tokens = [[row["tokens"] for row in found] for found in (before, after)]
    assert tokens[0] != tokens[1], "training changed the weights, so the actions differ"


def test_it_goes_on_where_it_stopped_and_takes_no_other_settings(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval", str(trained), *FEW, "--skip-start", "--out", str(tmp_path)]
    assert main(command) == 0
    folder = tmp_path / "tiny-step-2"
    assert not (tmp_path / "tiny-start").exists()
    whole, path = rows(folder), folder / "episodes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:8]) + lines[8][:30])
    assert main(command) == 0
    keys = ("task_id", "sample", "success", "tokens")
    assert [[row[key] for key in keys] for row in rows(folder)] == [
        [row[key] for key in keys] for row in whole
    ]
    assert main([*command, "eval.temperatures=[0.5]"]) == 1
    assert "'temperature': 1.0" in capsys.readouterr().err


def test_it_does_not_resume_on_other_tasks_under_the_same_ids(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tmp_path / "t.json"

    def write(text: str) -> None:
        tasks.write_text(json.dumps([{"prompt": f"{text} {n} + 1?", "answer": n + 1} for n in range(4)]))

    write("What is")
    command = ["eval", str(trained), "--benchmark", ENV, "--tasks", str(tasks), "--skip-start"]
    command += ["--out", str(tmp_path / "out")]
    assert main(command) == 0
    folder = tmp_path / "out" / "tiny-step-2"
    path = folder / "episodes.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    write("How much is")
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "and 2 more): the task files have changed" in said
    write("What is")
    assert main(command) == 0
    assert all(row["content"] for row in rows(folder))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "3"], "--limit needs --benchmark"),
        (["--skip-start"], "--skip-start needs --benchmark"),
        (["--benchmark", "mappa/MathSingle-v0"], "but the run trains solver_0, coder_0, verifier_0"),
        ([*FEW, "eval.temperatures=[0]"], "same episode again"),
        ([*FEW, "--checkpoint", "77"], "77"),
        ([*FEW, "--dry-run"], "--limit 1"),
        (["--benchmark", "mathcat"], "mappa/MathChat-v0"),
    ],
)
def test_wrong_input_is_one_sentence_and_plays_nothing(
    trained: Path, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")] if "--benchmark" in words else []
    assert main(["eval", str(trained), *words, *out]) != 0
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
