"""``mappa-rl play``: a trained team on a problem from the command line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mappa_rl import load_config, train
from mappa_rl.cli import main
from mappa_rl.commands.play import play
from tiny_run import TINY


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    out = tmp_path_factory.mktemp("trained") / "run"
    train(load_config("demo", [*TINY, "run.steps=2"]), out)
    return out


def test_every_agent_speaks_in_its_turn_about_the_given_problem(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(trained), "97 mod 11?"]) == 0
    shown = capsys.readouterr().out
    titles = ("== Problem Solver", "== Code Executor", "== Verifier")
    speakers = [line for line in shown.splitlines() if line in titles]
    assert (speakers[0], speakers[-1]) == ("== Problem Solver", "== Verifier")
    assert "== Code Executor" in speakers
    assert "-- verdict" not in shown  # the coach is off


def test_the_same_seed_plays_the_same_and_the_prompt_holds_the_problem(trained: Path) -> None:
    first, again = (play(trained, "97 mod 11?", 5, temperature=1.0) for _ in range(2))
    assert [a.action for a in first.actions] == [a.action for a in again.actions]
    assert "97 mod 11?" in first.actions[0].messages[-1]["content"]


def test_a_problem_can_come_from_standard_input(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("7 mod 3?\n"))
    assert main(["play", str(trained), "-", "--temperature", "0"]) == 0
    assert "== Verifier" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["  "], "the problem is empty"),
        (["1+1?", "--temperature", "-1"], "must be 0 (greedy) or more"),
        (["1+1?", "--checkpoint", "77"], "77"),
    ],
)
def test_wrong_input_is_one_sentence(
    trained: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(trained), *words]) != 0
    assert said in capsys.readouterr().err


def test_a_team_that_works_on_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config("demo_dsbench")
    (tmp_path / "config.yaml").write_text(config.dump(), encoding="utf-8")
    assert main(["play", str(tmp_path), "predict"]) == 2
    assert "more than text" in capsys.readouterr().err
