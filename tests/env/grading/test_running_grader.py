"""Graders that run what the agents made: what they may use, and what happens if the sandbox fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cards import read_card
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError, SandboxError, WorkspaceError
from mappa_env.grading import FreshSandbox, make_grader, running
from mappa_env.plugins import TRUST
from mappa_env.sandbox import Limits, Result
from mappa_env.sandbox.fresh import FreshRuns
from mappa_env.sandbox.process import ProcessSandbox
from mappa_env.types import ActionRecord, Outcome, Task
from mappa_env.workspace.workspace import Workspace

CARD = """
extends: mathchat
id: Running-v0
title: A grader that runs code
grader: {name: "code.py:Runs"}
coach: {}
scripted: ""
"""
GRADER = """
from mappa_env.types import Outcome

class Runs:
    def grade(self, task, actions, workspace, sandbox):
        run = sandbox.run("open('out', 'w').write(open('in').read() * 2)", {"in": b"ab"}, reads=["out"])
        right = run.files["out"] == b"abab"
        return Outcome(float(right), right, "ok", run.tool.status)
"""


class Unavailable(ProcessSandbox):
    """Fails after ``runs`` runs."""

    def __init__(self, runs: int = 0) -> None:
        super().__init__()
        self._left = runs

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        self._left -= 1
        if self._left < 0:
            return Result("unavailable", None, "", "no room")
        return super().run(workspace, code, limits, seed=seed)


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "running"
    folder.mkdir()
    (folder / "card.yaml").write_text(CARD)
    (folder / "code.py").write_text(GRADER)
    monkeypatch.setenv(TRUST, str(folder))
    return folder


def play(card: Path, **options: Any) -> Episode:
    episode = Episode(read_card(card), coach="off", shaping="outcome", **options)
    episode.reset(seed=1)
    while not episode.over:
        episode.act("done")
    return episode


def test_a_grader_runs_its_program_in_the_sandbox_of_the_episode(card: Path) -> None:
    episode = play(card, sandbox="process")
    assert episode.outcome == Outcome(1.0, True, "ok", "ok")
    assert {reward for reward, _ in episode.rewards} == {10.0}
    episode.close()


def test_an_unavailable_sandbox_is_nobodys_fault(card: Path) -> None:
    episode = play(card, sandbox=f"{__file__}:Unavailable")
    assert episode.outcome is not None
    assert (episode.outcome.status, episode.outcome.score) == ("unavailable", 0.0)
    assert "no room" in episode.outcome.reason
    assert not any(valid for _, valid in episode.rewards), "no reward is made of it"
    episode.close()


def test_a_run_leaves_nothing_behind_and_sees_nothing_of_other_runs() -> None:
    fresh = FreshRuns(ProcessSandbox(), Limits(), 5)
    look = "import os; print(sorted(os.listdir('.')), __name__); open('left', 'w').write('x')"
    for _ in range(2):
        run = fresh.run(look, {"a/b.txt": b"1", "c": b""}, reads=["left", "missing", "a"])
        assert run.tool.stdout == "['a', 'c'] __main__\n"
        assert run.files == {"left": b"x"}
    draw = "import random; print(random.random())"
    assert fresh.run(draw, {}).tool.stdout == fresh.run(draw, {}).tool.stdout


@pytest.mark.parametrize(
    "code",
    [
        "open('out', 'w').write('x' * 2000)",
        "import os; os.symlink('/etc/passwd', 'out')",
        "import os; os.mkfifo('out')",
        "import os; os.mkdir('out')",
        "import os; os.rmdir(os.getcwd())",
    ],
)
def test_only_small_regular_files_are_read(code: str) -> None:
    fresh = FreshRuns(ProcessSandbox(), Limits(), 5)
    assert fresh.run(code, {}, reads=["out"], max_bytes=1000).files == {}


def test_a_wrong_file_name_is_the_graders_error() -> None:
    with pytest.raises(WorkspaceError, match="does not stay inside the workspace"):
        FreshRuns(ProcessSandbox(), Limits(), 5).run("", {"../x": b""})


def test_a_run_without_a_sandbox_raises() -> None:
    with pytest.raises(SandboxError, match="no room"):
        FreshRuns(Unavailable(), Limits(), 5).run("", {})


class Three:
    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        raise NotImplementedError


class Four:
    def grade(
        self,
        task: Task,
        actions: Sequence[ActionRecord],
        workspace: Workspace | None,
        sandbox: FreshSandbox,
    ) -> Outcome:
        raise NotImplementedError


class Five:
    def grade(self, task: Any, actions: Any, workspace: Any, sandbox: Any, more: Any) -> Outcome:
        raise NotImplementedError


def test_the_arguments_say_whether_a_grader_runs_code() -> None:
    assert running(make_grader(f"{__file__}:Three")) is None
    assert running(make_grader(f"{__file__}:Four")) is not None
    assert running(make_grader("math")) is None
    with pytest.raises(OptionError, match=r"needs grade\(\)"):
        make_grader(f"{__file__}:Five")
