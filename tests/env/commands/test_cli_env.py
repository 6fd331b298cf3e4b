"""The ``mappa-env`` command as a user sees it, and what importing the package imports."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import fake_llm
from mappa_env import __version__
from mappa_env.cli import main
from mappa_env.envs.colours import Painter
from mappa_env.envs.rendering import printable
from mappa_env.testing import begin
from mappa_env.trace.record import read
from paths import ROOT


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )


def test_importing_is_light() -> None:
    """Making an environment does not import the libraries for data science and learning either."""
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


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "play one episode"),
        (["coach"], "estimate the cost of a run's verdicts"),
        (["bench"], "latency and throughput"),
        (["data"], "list the task files"),
    ],
)
def test_a_bare_command_prints_its_help(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 0
    assert words in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mappa {__version__}\n"


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
    assert main(args) == 0  # the same seed gives the same episode
    assert [t.actions[0].action for t in read(path)] == [trajectory.actions[0].action] * 2


def test_play_shows_each_prompt_once_and_cuts_it_in_the_middle(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "MathChat-v0", "--sandbox", "calculator", "--shaping", "outcome"]) == 0
    out = capsys.readouterr().out
    assert out.count("-- prompt\n") == out.count("-- action\n") == 4
    assert out.count("You are the Problem Solver") == 1
    assert out.count("reward 10.00") == 1  # only the closing action's reward is not pending

    with_long_prompt = ["play", "DSBench-v0", "--sandbox", "null", "--coach", "off"]
    assert main(with_long_prompt) == 0
    first = capsys.readouterr().out.partition("-- action")[0]
    assert main([*with_long_prompt, "--full"]) == 0
    whole = capsys.readouterr().out.partition("-- action")[0]
    assert "[... " not in whole
    assert len(whole) > len(first)
    head, cut, tail = first.partition("[... ")
    assert cut
    assert "-- prompt\n   You are" in head
    assert "characters]" in tail


@pytest.mark.parametrize("shaping", ["backward", "outcome", "mixed"])
def test_play_shows_pending_rewards_and_the_final_ones_at_the_end(
    shaping: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    args = ["--sandbox", "calculator", "--shaping", shaping, "--record", str(path)]
    assert main(["play", "MathChat-v0", "--team", "faulty", *args]) == 0
    steps, _, final = capsys.readouterr().out.partition("-- rewards\n")
    (trajectory,) = read(path)
    assert steps.count("; reward pending\n") == len(trajectory.actions) - 1
    said = [f"{a.reward:.2f}" if a.reward_valid else "none" for a in trajectory.actions]
    assert [line.split()[0] for line in final.strip().splitlines()] == said
    assert "solver_0" in final


def test_play_shows_immediate_rewards_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "MathChat-v0", "--sandbox", "calculator", "--coach", "off"]) == 0
    out = capsys.readouterr().out
    assert "reward none" in out
    assert "pending" not in out
    assert "-- rewards" not in out


def test_play_takes_the_folder_name_of_a_shipped_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "mathchat", "--sandbox", "calculator", "--coach", "examples/coach.py:Brief"]) == 0
    assert "== MathChat-v0 · " in capsys.readouterr().out


@pytest.mark.parametrize("unlike", ["Team4-v0", "mappa/Chess-v0", "./team4"])
def test_an_unlike_id_gets_no_hint(unlike: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", unlike]) == 2
    err = capsys.readouterr().err
    assert f"{unlike!r} is neither an id" in err
    assert "Did you mean" not in err


def test_play_shows_what_a_model_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-the-tests")
    with fake_llm.serving("openai") as server:
        coach = json.dumps({"name": f"openai:m@{server.url}"})
        assert main(["play", "MathChat-v0", "--sandbox", "calculator", "--coach", coach]) == 0
    assert re.search(r'^ +\d+% of \d\.\d\d  correctness: ".+"$', capsys.readouterr().out, re.MULTILINE)


def test_play_colours_headings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", highlight=False)
    Painter(console).print("== step 0\n-- action\n   -- \x1b[2Jno heading")
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("\x1b[1;36m")
    assert second.startswith("\x1b[1m")
    assert third == "   -- ?[2Jno heading"


def test_play_by_hand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed = "plan: 6 * 7\n.\n```python\nprint(6 * 7)\n```\n.\nresult: 42\n.\n\\boxed{42}\n.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    task = "train-arithmetic-00000"
    assert main(["play", "MathChat-v0", "--team", "human", "--task-id", task, "--coach", "off"]) == 0
    out = capsys.readouterr().out
    assert "coder_0, turn 1: write the action" in out
    assert "   42\n" in out
    assert task in out


def test_play_one_agent_by_hand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("I do not know.\n.\n"))
    assert main(["play", "MathChat-v0", "--agent", "verifier_0"]) == 0
    assert "no success, score 0.000" in capsys.readouterr().out


def test_input_that_ends_early_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("half an action"))
    assert main(["play", "MathChat-v0", "--team", "human"]) == 2
    assert "end every action with the line '.'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["play", "MatChat-v0"], "Did you mean 'mappa/MathChat-v0'"),
        (["play", "MathChat-v0", "--task-id", "x"], "unknown task id 'x'"),
        (["play", "MathChat-v0", "--coach", "rubrik"], "Did you mean 'rubric'"),
        (["play", "AIME-v0"], "mappa-env data add aime PATH"),
        (["check", "/nowhere"], "neither an id"),
        (["chekc", "MathChat-v0"], "Did you mean 'check'? See 'mappa-env --help'"),
        (["coach", "bnech"], "Did you mean 'bench'? See 'mappa-env coach --help'"),
        (["play", "MathChat-v0", "--taem", "expert"], "Did you mean '--team'? See 'mappa-env play --help'"),
        (["play", "MathChat-v0", "--team", "exprt"], "Did you mean 'expert'"),
        (["play", "MathChat-v0", "--seed", "-3"], "--seed: -3 must be at least 0"),
        (["play", "MathChat-v0", "--seed", "x"], "--seed: 'x' is not an integer"),
        (["play", "MathChat-v0", "--shaping", "outcom"], "Did you mean 'outcome'"),
        (["play", "MathChat-v0", "--shaping", "{weight: 1}"], "--shaping '{weight: 1}' needs a name"),
        (["why", "/"], "/ has no traces: /traces contains no .jsonl or .jsonl.gz file"),
        (["why", str(ROOT / "README.md")], "README.md is not a trace: none of its lines"),
        (["data", "add", "aim", "x"], "Did you mean 'aime'"),
        (["data", "add", "aime", "/nowhere.json"], "/nowhere.json"),
        (["data", "verify", "aim"], "Did you mean 'aime'"),
        (["data", "verify", "*"], "'*' takes no added data; choose from ('aime', 'amc', 'math', 'dsbench')"),
    ],
)
def test_errors_are_one_line_with_the_remedy(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "MathChat-v0", "--sandbox", "null", "--coach", "off"]) == 0
    assert re.search(r"(\d+) of \1 suites passed", capsys.readouterr().out)


def test_check_fails_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mappa_env.envs.team_env import TeamEnv

    monkeypatch.setattr(TeamEnv, "observation", lambda self, agent=None: {"prompt": "[red]"})
    assert main(["check", "MathChat-v0", "--sandbox", "null", "--coach", "off"]) == 1
    assert "failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("coach.yaml", "template: coach.jinja", "template: coach.jinja\ngaets: []", "gaets"),
        ("coach.jinja", "{{", "{{ nothing }} {{", "'nothing' is undefined"),
        ("prompts/compact/solver.jinja", "", "{{ nothing }}", "'nothing' is undefined"),
        ("prompts/compact/tool.jinja", "", "{% if %}", "compact/tool.jinja line 1"),
    ],
)
def test_check_finds_what_a_default_episode_never_reads(
    file: str, old: str, new: str, words: str, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(ROOT / "envs_registry" / "mathchat", folder)
    card = folder / "card.yaml"
    card.write_text(card.read_text().replace("id: MathChat-v0", f"id: {re.sub('[^a-z]', '', file)}-v0"))
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    _, results = begin(str(folder), sandbox="null", coach="off")
    failed = [next(results), next(results)]
    assert [result.name for result in failed if not result.ok] == [
        "coach questions" if file.startswith("coach") else "prompts of every length"
    ]
    assert words in "".join(result.detail for result in failed)


def test_check_a_malformed_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "card.yaml").write_text("id: Mine-v0\nextends: mathchat\nteams: []\n")
    assert main(["check", str(tmp_path)]) == 2
    assert "Did you mean 'team'" in capsys.readouterr().err


def test_data_add_and_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "ls"]) == 0
    assert "nothing added yet" in capsys.readouterr().out
    rows = [{"id": str(i), "prompt": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(3)]
    (tmp_path / "aime.json").write_text(json.dumps(rows))
    assert main(["data", "add", "aime", str(tmp_path / "aime.json")]) == 0
    assert "3 tasks -> " in capsys.readouterr().out
    assert main(["data", "ls"]) == 0
    assert re.search(r"aime +│ train +│ 3 ", capsys.readouterr().out)
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "train: 3" in out
    assert re.search(r"aime +│ train +│ 3 ", out)
    assert main(["data", "verify"]) == 0
    assert main(["doctor"]) == 0
    assert "added: aime train" in capsys.readouterr().out
    (tmp_path / "store" / "aime" / "train.json").write_text("[]")
    for command in (["data", "verify"], ["doctor"]):
        assert main(command) == 1
        assert "has changed" in re.sub(r"[\s│]+", " ", capsys.readouterr().out)


def test_what_was_not_added_is_not_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "verify"]) == 0  # there is nothing that could have changed
    assert "nothing added yet" in capsys.readouterr().out
    (tmp_path / "own.jsonl").write_text(json.dumps({"prompt": "What is 1 + 1?", "answer": 2}))
    assert main(["data", "add", "amc", str(tmp_path / "own.jsonl")]) == 0
    assert main(["data", "verify", "amc"]) == 0
    capsys.readouterr()
    assert main(["data", "verify", "math"]) == 1
    assert capsys.readouterr().out == "math was not added: mappa-env data add math PATH\n"


def test_doctor_calls_tasks_that_cannot_be_read_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store" / "aime" / "train.json"
    path.parent.mkdir(parents=True)
    path.write_text("[" * 100_000)
    assert main(["doctor"]) == 1
    out = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    assert re.search(r"tasks of AIME-v0 problem train: .*train\.json is not valid JSON", out)
    assert re.search(r"tasks of AMC-v0 note train: amc \(train\) is missing", out)


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
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
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
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert result.stdout.startswith("== MathChat-v0")
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr


def test_agents_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2J\x07\u202eb\n\tπ\ud800") == "a?[2J??b\n\tπ?"


def test_a_sandbox_takes_options(capsys: pytest.CaptureFixture[str]) -> None:
    play = ["play", "mappa/MathChat-v0", "--sandbox"]
    assert main([*play, "{name: local, level: landlock}"]) == 0
    assert main([*play, "{level: landlock}"]) == 2
    assert "needs a name" in capsys.readouterr().err
    assert main([*play, "{name: local, colour: red}"]) == 2
    assert "colour" in capsys.readouterr().err
