"""Corrected actions are tried in a copy of the workspace, and kept only if they are better."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cards import read_card
from mappa_env.coach import make_coach
from mappa_env.episode.corrections import MARGIN
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.registration import shipped
from mappa_env.scripted import make_team
from mappa_env.trace import TraceStore, read
from mappa_env.types import CorrectedAction, Evidence, Trajectory, Verdict

CARDS = {name: read_card(folder) for name, folder in shipped().items()}
STAND_IN = {"name": "rubric", "corrector": "compact"}


@pytest.fixture(scope="module", params=["blocking", "deferred"])
def tables(request: pytest.FixtureRequest) -> Iterator[Episode]:
    episode = Episode(CARDS["dsbench_sprint"], prompts="compact", coach=STAND_IN, judging=request.param)
    yield episode
    episode.close()


def play(episode: Episode, agent: str, fault: str, seed: int = 1) -> Trajectory:
    team = make_team(str(episode.card.scripted), "single", style="compact", agent=agent, fault=fault)
    episode.reset(seed=seed)
    team.reset(episode.task, seed)
    while episode.agent is not None:
        episode.act(team.act(episode.agent, episode.turn, episode.actions))
    return episode.trajectory


@pytest.mark.parametrize(
    ("agent", "fault"),
    [("engineer_0", "forgets_x_test"), ("modeler_0", "wrong_file_name"), ("analyst_0", "crash")],
)
def test_a_better_action_is_kept_and_changes_nothing_else(tables: Episode, agent: str, fault: str) -> None:
    trajectory = play(tables, agent, fault)
    (fixed,) = [record for record in trajectory.actions if record.correction is not None]
    assert fixed.agent == agent
    found = fixed.correction
    assert found is not None
    assert found.kept
    assert found.tool is not None
    assert found.tool.status == "ok"
    assert found.verdict.score is not None
    assert found.was is not None
    assert found.verdict.score >= found.was + MARGIN
    assert trajectory.outcome is not None
    assert not trajectory.outcome.success  # the correction does not change the episode
    assert fixed.verdict.corrected_action == found.action != fixed.action


def test_a_repaired_episode_succeeds_with_what_was_kept(tables: Episode) -> None:
    """The same episode with the correction in place of the original action."""
    failed = play(tables, "modeler_0", "forgets_model", seed=2)
    team = make_team("dsbench_sprint", "expert", style="compact")
    tables.reset(seed=2)
    team.reset(tables.task, 2)
    while tables.agent is not None:
        correction = failed.actions[len(tables.actions)].correction
        tables.act(correction.action if correction else team.act(tables.agent, tables.turn, tables.actions))
    assert tables.outcome is not None
    assert tables.outcome.success


def test_the_record_holds_corrections(tables: Episode, tmp_path: Path) -> None:
    trajectory = play(tables, "engineer_0", "wrong_column")
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(trajectory)
    store.close()
    (again,) = read(tmp_path / "t.jsonl")
    assert [a.correction for a in again.actions] == [a.correction for a in trajectory.actions]


class Proposing:
    """Wraps the rubric, and proposes one text for every action."""

    def __init__(self, inner: Any, text: str) -> None:
        self._inner, self._text, self.corrects = inner, text, True

    def judge(self, evidence: Evidence) -> Verdict:
        return dataclasses.replace(self._inner.judge(evidence), corrected_action=self._text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def proposed(
    monkeypatch: pytest.MonkeyPatch, card: str, text: str, actions: list[str]
) -> list[CorrectedAction | None]:
    from mappa_env.episode import episode as module

    monkeypatch.setattr(module, "make_coach", lambda spec, card: Proposing(make_coach(spec, card), text))
    episode = Episode(CARDS[card], prompts="compact", sandbox="process")
    try:
        episode.reset(seed=1)
        for action in actions:
            episode.act(action)
        return [record.correction for record in episode.actions]
    finally:
        episode.close()


def test_what_is_not_better_is_recorded_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    crash = "```python\n1 / 0\n```"
    (found,) = proposed(monkeypatch, "dsbench", crash, ["I do nothing."])
    assert found is not None
    assert not found.kept
    assert found.reason == "its code ended with error"
    (found,) = proposed(monkeypatch, "dsbench", "I do nothing either.", ["I do nothing."])
    assert found is not None
    assert not found.kept
    assert "the rubric scores it 0.00, and the agent's action 0.00" in found.reason


def test_the_copy_is_of_what_was_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second action deletes the first one's file, but its correction still finds the file."""
    make = "```python\nopen('notes.txt', 'w').write('hello')\n```"
    remove = "```python\nimport os; os.remove('notes.txt')\n```"
    use = "```python\nprint(open('notes.txt').read())\n```"
    first, second = proposed(monkeypatch, "dsbench", use, [make, remove])
    assert first is not None
    assert second is not None
    assert first.tool is not None
    assert "FileNotFoundError" in first.tool.stderr
    assert second.tool is not None
    assert second.tool.stdout == "hello\n"


def test_what_cannot_work_is_refused() -> None:
    card = dataclasses.replace(CARDS["mathchat"], scripted=None)
    with pytest.raises(OptionError, match="has no scripted team"):
        make_coach(STAND_IN, card)
    assert make_coach(STAND_IN, CARDS["mathchat"]).corrects
    assert not make_coach("rubric", CARDS["mathchat"]).corrects


def test_no_copies_are_left(tables: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    from mappa_env.workspace.workspace import Workspace

    open_: list[Workspace] = []
    copy = Workspace.copy

    def watched(self: Workspace) -> Workspace:
        twin = copy(self)
        open_.append(twin)
        return twin

    monkeypatch.setattr(Workspace, "copy", watched)
    play(tables, "modeler_0", "crash")
    tables.reset(seed=3)
    tables.act("```python\nprint(1)\n```")
    tables.act("```python\nprint(2)\n```")
    tables.reset(seed=4)  # verdicts may be pending
    assert open_
    assert all(twin._storage is None for twin in open_)
