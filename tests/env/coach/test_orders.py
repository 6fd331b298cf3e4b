"""Verdicts, blame and rewards of teams that return, branch, act in parallel and are managed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.cards import Card
from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import culprit, culprit_step
from mappa_env.coach.rubric.case import Case
from mappa_env.shaping import make_shaping
from mappa_env.types import AgentSpec, FileChange, Team, ToolResult
from order_play import CHECKS, OrderPlay, card_of
from orders import TEAM, steps
from rubric_play import code

SAYINGS = (
    "plan: 3*4+2",
    "plan: 3*4",
    "answer: 14",
    "answer: 15",
    r"\boxed{14}",
    r"\boxed{15}",
    "result: 14",
    "result: 15",
    "decision: accept",
    "decision: redo",
    "next: pro_0",
    "next: con_0",
    "next: done",
    "",
)
texts = st.lists(st.sampled_from(SAYINGS), min_size=1, max_size=2).map("\n".join)
FILES = ("table.pkl", "report.csv", "train.csv")
TOOLED = AgentSpec("coder_0", "Coder", 2, ("python",), ("table.pkl",), ("train.csv", "report.csv"))
changes = st.builds(
    lambda path, op, kind: FileChange(path, op, 1, "0" * 64, kind),
    st.sampled_from(FILES),
    st.sampled_from(["created", "modified", "deleted"]),
    st.sampled_from(["file", "file", "file", "dir"]),
)
runs = st.builds(
    lambda status, stdout, files: ToolResult(status, 0, stdout, "ValueError: bad", files=tuple(files)),
    st.sampled_from(["ok", "ok", "error", "timeout"]),
    st.sampled_from(["14", "15", ""]),
    st.lists(changes, max_size=2, unique_by=lambda change: change.path),
)
programs = st.sampled_from([*(code(f"open({name!r})") for name in FILES), code("print(14)")])


def any_card(folder: Path, rows: list[Any], data: st.DataObject) -> Card:
    """Everyone is judged by every check that takes text; anyone may close the episode, or be graded."""
    team = Team((*TEAM.agents[:-1], TOOLED))
    roles = ("pro", "con", "judge", "boss", "coder")
    last = data.draw(st.permutations(team.names))
    graded = data.draw(st.sampled_from(["", "", *team.names]))
    return card_of(folder, team, [*rows, *last], dict.fromkeys(roles, CHECKS), graded)


def play_on(play: OrderPlay, data: st.DataObject) -> OrderPlay:
    """Random actions up to the end."""
    while (agent := play.agent) is not None:
        if play.card.team[agent].tools and data.draw(st.booleans()):
            play.act(f"{data.draw(texts)}\n{data.draw(programs)}", data.draw(runs))
        else:
            play.act(data.draw(texts))
    return play


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("card")


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(rows=st.lists(steps, min_size=1, max_size=3), data=st.data())
def test_any_order_is_judged_and_traced(folder: Path, rows: list[Any], data: st.DataObject) -> None:
    play = play_on(OrderPlay(any_card(folder, rows, data)), data)
    for evidence, action in zip(play.evidence, play.actions, strict=True):
        verdict, case = action.verdict, Case(evidence, play.card.order)
        assert verdict.status in ("ok", "abstain")
        known = {record.agent for record in case.seen} | {action.agent}
        assert verdict.blame in known | {None}, "nobody is blamed of whom the agent could know nothing"
        assert [record.agent for record in case.own] == [action.agent] * len(case.own)
        assert (*case.before, *case.own) == evidence.history
        assert all(not record.last_turn for record in case.own)
        assert set(case.earlier) <= set(case.seen)
        assert case.sender is None or action.agent in play.card.order.offered(
            evidence.history[: play.card.order.chosen_by(evidence.history).step]  # type: ignore[union-attr]
        )
    for coach in (None, play.coach):
        found = attribute(play.trajectory, play.card, coach)
        assert found.failed is not play.outcome.success  # type: ignore[union-attr]
        assert set(found.suspects) <= set(range(len(play.actions)))
        if found.fractions:
            assert sum(found.fractions) == pytest.approx(1)
            assert len(found.fractions) == len(play.actions)
            assert all(step in found.suspects for step, part in enumerate(found.fractions) if part)
        done = dataclasses.replace(play.trajectory, attribution=found)
        for shaping in ("process", "outcome", "mixed", "backward"):
            rewards = make_shaping(shaping).rewards(done)
            assert len(rewards) == len(play.actions)
            assert all(0 <= reward <= 10 and (valid or reward == 0) for reward, valid in rewards)
    assert culprit(play.actions) in {None, *(action.agent for action in play.actions)}
    step = culprit_step(play.actions, play.card.team)
    assert step is None or play.actions[step].agent == culprit(play.actions)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(rows=st.lists(steps, min_size=1, max_size=3), data=st.data())
def test_nobody_is_judged_on_what_it_could_not_see(
    folder: Path, rows: list[Any], data: st.DataObject
) -> None:
    debaters = ["pro_0", "con_0", "judge_0"]
    rows = [{"repeat": [{"parallel": debaters}], "times": 2}, *rows]
    play = play_on(OrderPlay(any_card(folder, rows, data)), data)
    other = data.draw(texts)
    for evidence, action in list(zip(play.evidence, play.actions, strict=True))[:6]:
        begun = 3 * (action.step // 3)
        history = tuple(
            record if record.step < begun else dataclasses.replace(record, action=other, answer=other)
            for record in evidence.history
        )
        assert [record.step for record in play.card.order.seen(history)] == list(range(begun))
        assert play.coach.judge(dataclasses.replace(evidence, history=history)) == action.verdict
