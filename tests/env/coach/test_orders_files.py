"""Verdicts and blame where agents that return, and their managers, work through files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import culprit
from mappa_env.types import ActionRecord, AgentSpec, FileChange, Outcome, Team, ToolResult
from order_play import OrderPlay, card_of, say
from rubric_play import TABLE, code, ran

BOSS = AgentSpec("boss_0", "Manager")
MAKER = AgentSpec("maker_0", "Maker", 2, ("python",), ("table.pkl",), ("train.csv",))
USER = AgentSpec("user_0", "User", 2, ("python",), ("out.csv",), ("table.pkl",))
WORK = {role: ["work", "ran", "intact"] for role in ("maker", "user")} | {"boss": ["handover"]}
WRITE, READ = code("open('table.pkl', 'w')"), code("open('table.pkl')")
LOST = "FileNotFoundError: [Errno 2] No such file or directory: 'table.pkl'"


def graded(actions: Sequence[ActionRecord], present: Any) -> Outcome:
    there = "out.csv" in present and bool(present["out.csv"].agent)
    return Outcome(float(there), there, "ok" if there else "missing", "graded")


def works(folder: Path, rows: list[Any], *team: AgentSpec) -> OrderPlay:
    card = dataclasses.replace(card_of(folder, Team(team), rows, WORK), grader="submission")
    return OrderPlay(card, TABLE, grade=graded)


def boss_of(folder: Path) -> OrderPlay:
    rows = [{"choose": "boss_0", "among": ["maker_0", "user_0"], "times": 4}]
    return works(folder, rows, BOSS, MAKER, USER)


def crash(play: OrderPlay) -> ActionRecord:
    return play.act(READ, ran("", "error", f'  File "<action>", line 1\n{LOST}'))


def test_who_calls_an_agent_before_its_input_is_there_is_to_blame(folder: Path) -> None:
    play = boss_of(folder)
    call = play.act("next: user_0").verdict
    assert (call.score, call.blame) == (2, "boss_0")
    verdict = crash(play).verdict
    assert verdict.blame == "boss_0"
    assert verdict.criteria[0].score == 0.6, "its input could not be there"
    play.act("I cannot go on.")
    play.act("next: done")
    found = attribute(play.trajectory, play.card)
    assert [link.action for link in found.walk] == [1, 0]
    assert found.culprit == 0


def test_nobody_is_to_blame_for_a_file_that_nobody_could_have_written(
    folder: Path,
) -> None:
    play = works(folder, ["user_0", "maker_0", "user_0"], MAKER, USER)
    verdict = crash(play).verdict
    assert (verdict.criteria[0].score, verdict.blame) == (0.6, None)
    play.act("It is missing.")
    play.act(WRITE, ran(files=["table.pkl"]))
    play.act("Done.")
    assert play.act("I run nothing.").verdict.criteria[0].score == 0, "now it is there"


def test_a_manager_that_ends_before_the_work_is_done_is_the_cause(folder: Path) -> None:
    play = boss_of(folder)
    say(play, "next: maker_0")
    play.act(WRITE, ran(files=["table.pkl"]))
    play.act("Done.")
    assert play.act("next: done").verdict.score == 1
    found = attribute(play.trajectory, play.card)
    assert (found.culprit, found.walk[-1].reason) == (3, "never had out.csv written")


def test_a_team_with_a_manager_succeeds(folder: Path) -> None:
    play = boss_of(folder)
    say(play, "next: maker_0")
    play.act(WRITE, ran(files=["table.pkl"]))
    say(play, "Done.", "next: user_0")
    play.act(code("open('table.pkl'); open('out.csv', 'w')"), ran(files=["out.csv"]))
    say(play, "Done.")
    assert play.act("next: done").verdict.score == 10
    found = attribute(play.trajectory, play.card)
    assert not found.failed
    assert sum(found.fractions) == pytest.approx(1)
    assert {1, 4, 6} <= set(found.suspects)


def test_an_agent_that_returns_repairs_its_own_file(folder: Path) -> None:
    rows = ["maker_0", "user_0", "maker_0", "user_0"]
    play = works(folder, rows, MAKER, USER)
    play.act("I forgot it.")
    assert crash(play).verdict.blame == "maker_0"
    play.act("It is missing.")
    assert play.act(WRITE, ran(files=["table.pkl"])).verdict.score == 10
    play.act("Done.")
    good = play.act(code("open('table.pkl'); open('out.csv', 'w')"), ran(files=["out.csv"])).verdict
    assert (good.score, good.blame) == (10, None)


def test_whose_file_another_agent_damaged_is_no_culprit_when_it_returns(folder: Path) -> None:
    rows = ["maker_0", "user_0", "maker_0"]
    for ends, score in (("I look on.", 2), (WRITE, 10)):
        play = works(folder, rows, MAKER, USER)
        play.act(WRITE, ran(files=["table.pkl"]))
        play.act("Done.")
        damage = ToolResult("ok", 0, "", "", files=(FileChange("table.pkl", "deleted", 0, ""),))
        assert play.act(code("import os"), damage).verdict.blame == "user_0"
        play.act("Done.")
        verdict = play.act(ends, ran(files=["table.pkl"]) if ends == WRITE else None).verdict
        assert verdict.criteria[0].score * 10 == score, verdict
    play = works(folder, rows, MAKER, USER)
    play.act(WRITE, ran(files=["table.pkl"]))
    say(play, "Done.", "I do nothing.")
    assert play.act("Nothing to do for me.").verdict.score == 10, "its file is there, and it ran"


def test_damage_is_paid_for_once(folder: Path) -> None:
    rows = ["maker_0", "user_0", "maker_0", "user_0"]
    play = works(folder, rows, MAKER, USER)
    play.act(WRITE, ran(files=["table.pkl"]))
    play.act("Done.")
    play.act(WRITE, ran(files=["table.pkl", "out.csv"]))
    assert play.act("Done.").verdict.criteria[-1].score == 0
    play.act("Well.")
    again = play.act(code("open('table.pkl'); open('out.csv', 'w')"), ran(files=["out.csv"])).verdict
    assert again.criteria[-1].score == 1, "this segment damaged nothing"


def test_the_last_segment_of_a_writer_is_at_fault(
    folder: Path,
) -> None:
    rows = ["maker_0", "user_0", "maker_0", "user_0"]
    play = works(folder, rows, MAKER, USER)
    play.act("I forgot it.")
    crash(play)
    say(play, "It is missing.")
    say(play, "I forgot it again.")
    last = crash(play)
    assert last.verdict.blame == "maker_0"
    play.act("It is still missing.")
    found = attribute(play.trajectory, play.card)
    assert found.culprit == 3, "its last segment could have made up for the first"
    assert culprit(play.actions) == "maker_0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("card")
