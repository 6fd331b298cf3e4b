"""The ``mappa-env`` command, as a user meets it; and what importing the package brings in."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mappa_env.cli import main
from mappa_env.rendering import printable
from mappa_env.trace.record import read

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )


def test_importing_is_light() -> None:
    """Also making an environment stays free of what only data science and learning need."""
    heavy = ("torch", "transformers", "pandas", "sklearn", "scipy", "google.genai", "sympy", "matplotlib")
    code = (
        "import sys, gymnasium as gym, mappa_env\n"
        f"heavy = {heavy!r}\n"
        "print([name for name in heavy if name in sys.modules], 'pydantic' in sys.modules)\n"
        "gym.make('mappa/MathChat-v0', sandbox='null', coach='off').reset(seed=0)\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    assert run("-c", code).stdout == "[] False\n[]\n"


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "mappa/MathChat-v0" in out
    assert "solver_0 (1) → coder_0 (2) → verifier_0 (1)" in out
    assert "mappa-env data add aime PATH" in out
    assert "train: 36864" in out


@pytest.mark.parametrize("team", ["expert", "faulty"])
def test_play(team: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    args = ["play", "MathChat-v0", "--team", team, "--seed", "11", "--record", str(path)]
    assert main(args) == 0
    out = capsys.readouterr().out
    (trajectory,) = read(path)
    for action in trajectory.actions:
        assert f"== step {action.step} · {action.agent} · turn {action.turn}" in out
        assert action.action.splitlines()[0] in out
    for title in ("prompt", "action", "ran", "stdout", "verdict", "outcome"):
        assert f"-- {title}\n" in out
    assert ("success, score 1.000" in out) == (trajectory.outcome is not None and trajectory.outcome.success)
    assert main(args) == 0  # the same seed is the same episode
    assert [t.actions[0].action for t in read(path)] == [trajectory.actions[0].action] * 2


def test_play_by_hand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed = "plan: 6 * 7\n.\n```python\nprint(6 * 7)\n```\n.\nresult: 42\n.\n\\boxed{42}\n.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    task = "train-arithmetic-00000"
    assert main(["play", "MathChat-v0", "--team", "human", "--task-id", task, "--coach", "off"]) == 0
    out = capsys.readouterr().out
    assert "coder_0, turn 1: write the action" in out
    assert "   42\n" in out
    assert task in out


def test_play_one_seat_by_hand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("I do not know.\n.\n"))
    assert main(["play", "MathChat-v0", "--seat", "verifier_0"]) == 0
    assert "no success, score 0.000" in capsys.readouterr().out


def test_input_that_ends_early_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("half an action"))
    assert main(["play", "MathChat-v0", "--team", "human"]) == 2
    assert "end every action with a line that is '.'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["play", "MatChat-v0"], "Did you mean 'mappa/MathChat-v0'"),
        (["play", "MathChat-v0", "--task-id", "x"], "unknown task id 'x'"),
        (["play", "MathChat-v0", "--coach", "rubrik"], "Did you mean 'rubric'"),
        (["play", "AIME-v0"], "mappa-env data add aime PATH"),
        (["check", "/nowhere"], "neither an id"),
        (["data", "add", "aim", "x"], "Did you mean 'aime'"),
        (["data", "add", "aime", "/nowhere.json"], "/nowhere.json"),
    ],
)
def test_errors_are_one_line_with_the_remedy(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "MathChat-v0", "--sandbox", "null", "--coach", "off"]) == 0
    assert "13 of 13 suites passed" in capsys.readouterr().out


def test_check_fails_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mappa_env.face import Face

    monkeypatch.setattr(Face, "observation", lambda self, agent=None: {"prompt": "[red]"})
    assert main(["check", "MathChat-v0", "--sandbox", "null", "--coach", "off"]) == 1
    assert "failed" in capsys.readouterr().out


def test_check_a_malformed_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "card.yaml").write_text("id: Mine-v0\nextends: mathchat\nteams: []\n")
    assert main(["check", str(tmp_path)]) == 2
    assert "Did you mean 'team'" in capsys.readouterr().err


def test_data_add_and_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    assert "nothing added yet" in capsys.readouterr().out
    rows = [{"id": str(i), "prompt": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(3)]
    (tmp_path / "aime.json").write_text(json.dumps(rows))
    assert main(["data", "add", "aime", str(tmp_path / "aime.json")]) == 0
    assert "3 tasks -> " in capsys.readouterr().out
    assert main(["data", "list"]) == 0
    assert "aime: train.json" in capsys.readouterr().out
    assert main(["list"]) == 0
    assert "train: 3" in capsys.readouterr().out


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for words in ("cores", "gymnasium", "isolation=", "tasks of MathChat-v0"):
        assert words in out


def test_doctor_names_a_broken_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mappa_env.commands import doctor
    from mappa_env.sandbox.local import LocalSandbox

    monkeypatch.setattr(doctor, "LocalSandbox", lambda: LocalSandbox(python="/nowhere/python"))
    assert main(["doctor"]) in (1, 2)
    printed = capsys.readouterr()
    assert "/nowhere/python" in printed.out + printed.err


def test_ctrl_c_ends_quietly_with_130() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mappa_env.cli", "play", "MathChat-v0", "--team", "human"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    while "write the action" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(0.2)  # let it reach the read
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


def test_a_reader_that_leaves_is_no_error() -> None:
    result = subprocess.run(
        f"{sys.executable} -m mappa_env.cli play MathChat-v0 --coach off | head -1",
        shell=True, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert result.stdout.startswith("== MathChat-v0")
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


def test_agents_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2J\x07\u202eb\n\tπ\ud800") == "a?[2J??b\n\tπ?"
