"""What was changed, removed, renamed or added after an evaluation is found, and it is not ranked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cli import main
from mappa_env.errors import EvaluationError
from mappa_env.evaluation.abandoned import Abandoned, append_abandoned
from mappa_env.evaluation.episodes import FILE, Played, Tokens, append, load, run_of
from mappa_env.evaluation.folder import RESULTS, SETTINGS, begin, finish
from mappa_env.evaluation.plan import Plan

ENV = "mappa/MathChat-v0"
PLAN = Plan(
    envs=(ENV,),
    models={"*": {"name": "openai:m@http://127.0.0.1:9/v1"}},
    limit=4,
    samples=2,
    seed=3,
    options={"prompts": "brief", "coach": None},
)
Row = dict[str, Any]


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    """Four tasks, of which two succeed; their scores, answers and metrics differ."""
    folder = tmp_path / "e"
    played = begin(folder, PLAN)
    for task in range(4):
        for sample in range(2):
            won = task < 2
            each = Played(
                env=ENV,
                task_id=str(task),
                sample=sample,
                topic="",
                success=won,
                score=float(won),
                answer=str(task),
                actions=2,
                rewards={},
                metrics={"length": float(task)},
                tokens={"solver_0": Tokens(1, prompt=10, dollars=0.5), "coder_0": Tokens(1, prompt=20)},
                flaws={},
                versions={"solver_0": "m-1", "coder_0": "m-1"},
                seconds=1.0,
            )
            append(folder, each)
            played.append(each)
    append_abandoned(folder, Abandoned(ENV, "0", 0, "x", {"solver_0": Tokens(9, prompt=5000, dollars=9.5)}))
    finish(folder, played)
    assert main(["leaderboard", str(folder)]) == 0
    return folder


def change(path: Path, edit: Callable[[Row], object], lines: slice = slice(None)) -> None:
    """Edit the chosen ``lines`` of a file, or the one object in it."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else None
    if rows is None:
        row = json.loads(path.read_text())
        edit(row)
        path.write_text(json.dumps(row))
    else:
        for row in rows[lines]:
            edit(row)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``leaderboard`` says. The command that resumes refuses it, too."""
    with pytest.raises(EvaluationError):
        begin(folder, PLAN)
    capsys.readouterr()
    assert main(["leaderboard", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "was changed after the evaluation" in said
    return said


@pytest.mark.parametrize("name", ["options", "seed", "limit", "samples", "envs"])
def test_a_setting_that_was_removed_is_missed(
    evaluated: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    change(evaluated / SETTINGS, lambda row: row.pop(name))
    assert f"have {name}=None" in refused(evaluated, capsys)


def test_an_option_that_was_removed_is_missed(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(evaluated / SETTINGS, lambda row: row["options"].pop("prompts"))
    assert "says options=" in refused(evaluated, capsys)


def test_so_is_a_setting_that_was_added(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(evaluated / SETTINGS, lambda row: row.update(more=1))
    assert "says more=None" in refused(evaluated, capsys)


def test_what_was_spent_without_a_result_cannot_be_removed(
    evaluated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = evaluated / "abandoned.jsonl"
    whole = path.read_bytes()
    path.unlink()
    assert "abandoned.solver_0" in refused(evaluated, capsys)
    for edit in (
        lambda row: row.update(env="mappa/AIME-v0"),
        lambda row: row.update(tokens={"coder_0": row["tokens"]["solver_0"]}),
        lambda row: row.update(tokens={}),
    ):
        path.write_bytes(whole)
        change(path, edit)
        assert "abandoned." in refused(evaluated, capsys)
    path.write_bytes(whole)
    assert main(["leaderboard", str(evaluated)]) == 0


@pytest.mark.parametrize(
    ("edit", "lines", "said"),
    [
        (lambda row: row["tokens"].pop("coder_0"), slice(None), "have no tokens.coder_0"),
        (
            lambda row: row["tokens"].update(x=row["tokens"].pop("coder_0")),
            slice(None),
            "nothing of tokens.x",
        ),
        (lambda row: row["metrics"].pop("length"), slice(1), "have no values.length"),
        (lambda row: row["metrics"].update(more=1.0), slice(None), "nothing of values.more"),
        (lambda row: row.update(rewards={"solver_0": 0.5}), slice(1), "nothing of rewards.solver_0"),
        (lambda row: row.update(flaws={"truncated": 1}), slice(1), "nothing of flaws.truncated"),
        (lambda row: row.update(topic="algebra"), slice(1), "nothing of topics."),
        (lambda row: row.update(answer=None), slice(None), "have no values.maj@2"),
    ],
)
def test_names_that_only_one_side_has_are_found(
    evaluated: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[Row], object],
    lines: slice,
    said: str,
) -> None:
    change(evaluated / FILE, edit, lines)
    assert said in refused(evaluated, capsys)


@pytest.mark.parametrize("names", [("success", "score"), ("metrics",), ("answer",), ("success", "answer")])
def test_outcomes_cannot_be_exchanged_between_tasks(
    evaluated: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...]
) -> None:
    """Every mean stays equal."""
    path = evaluated / FILE
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for one, other in ((rows[0], rows[4]), (rows[1], rows[5])):
        for name in names:
            one[name], other[name] = other[name], one[name]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "other episodes than those beside it" in refused(evaluated, capsys)


def test_the_order_of_lines_and_keys_is_no_change(evaluated: Path) -> None:
    path = evaluated / FILE
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in reversed(rows)))
    assert main(["leaderboard", str(evaluated)]) == 0


def test_what_earlier_versions_did_not_know_is_not_missed(evaluated: Path) -> None:
    def forget(row: Row) -> None:
        del row["run"]
        for figures in row["environments"]:
            del figures["abandoned"]
            for tokens in figures["tokens"].values():
                del tokens["unknown"]

    change(evaluated / RESULTS, forget)
    for path in (evaluated / FILE, evaluated / "abandoned.jsonl"):
        change(path, lambda row: [tokens.pop("unknown") for tokens in row["tokens"].values()])
    assert main(["leaderboard", str(evaluated)]) == 0


def test_what_a_later_version_adds_is_not_missed(evaluated: Path) -> None:
    def learn(row: Row) -> None:
        for figures in row["environments"]:
            figures["watts"] = 5.0
            for tokens in figures["tokens"].values():
                tokens["images"] = 0

    change(evaluated / RESULTS, learn)
    assert main(["leaderboard", str(evaluated)]) == 0


def test_the_digest_does_not_change_with_fields_that_have_their_default(evaluated: Path) -> None:
    before = run_of(load(evaluated))
    change(evaluated / FILE, lambda row: [tokens.pop("unknown") for tokens in row["tokens"].values()])
    assert run_of(load(evaluated)) == before == json.loads((evaluated / RESULTS).read_text())["run"]
    change(evaluated / FILE, lambda row: row["tokens"]["coder_0"].update(unknown=1), slice(1))
    assert run_of(load(evaluated)) != before
