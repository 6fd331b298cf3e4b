"""Whose turn it is, for orders and plays drawn at random, and for the shapes that the docs name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.errors import CardError
from mappa_env.order import Order, read_order
from mappa_env.types import ActionRecord, Team
from orders import NAMES, SAYINGS, TEAM, action, order_of, steps


def play(order: Order, texts: dict[str, list[str]]) -> list[str]:
    """The agents in the order in which they act, each with its ``texts`` in turn (then the last again)."""
    past: list[ActionRecord] = []
    left = {agent: list(mine) for agent, mine in texts.items()}
    while (turn := order.next(past)) is not None:
        mine = left.get(turn.agent.name, [""])
        past.append(action(past, turn.agent.name, mine.pop(0) if len(mine) > 1 else mine[0]))
    return [one.agent for one in past]


def test_without_an_order_everyone_acts_once() -> None:
    order = read_order(None, TEAM, "card.yaml")
    assert play(order, {}) == [*NAMES, "coder_0"]
    assert order.most_actions == 6
    assert order.fewest_segments == 5
    assert order.is_chain


def test_rounds_end_when_the_debaters_agree() -> None:
    rows = {"repeat": [{"parallel": ["pro_0", "con_0"]}], "times": 3, "until": {"agree": ["pro_0", "con_0"]}}
    order = order_of(rows, "judge_0", names=NAMES[:3])
    rounds = ["pro_0", "con_0"]
    assert order.fewest_segments == 3
    assert order.most_actions == 7
    texts = {"pro_0": ["The answer is 41."], "con_0": ["answer: 42", r"so it is \boxed{82/2}"]}
    assert play(order, texts) == [*rounds * 2, "judge_0"]
    assert play(order, {"pro_0": ["answer: Yes"], "con_0": [r"\boxed{yes}"]}) == [*rounds, "judge_0"]
    unsure = "I am not sure."
    for pro, con in (("answer: 41", "answer: 42"), ("", ""), (unsure, unsure), ("12.", "No, not 12.")):
        assert play(order, {"pro_0": [pro], "con_0": [con]}) == [*rounds * 3, "judge_0"], (pro, con)


def test_a_reviewer_sends_work_back() -> None:
    until = {"agent": "judge_0", "says": "decision: accept"}
    order = order_of({"repeat": ["pro_0", "judge_0"], "times": 4, "until": until}, names=("pro_0", "judge_0"))
    pair = ["pro_0", "judge_0"]
    assert play(order, {"judge_0": ["decision: redo", "Fine.\n**Decision:** Accept."]}) == pair * 2
    assert play(order, {"judge_0": ["decision: redo\nI may say decision: accept later"]}) == pair * 4
    assert play(order, {"judge_0": ["decision: accept\ndecision: redo", "decision: accept"]}) == pair * 2


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("decision: reject, 3 errors found\n...\ndecision: accept", True),
        ("DECISION: [ACCEPT]", True),
        ("  **decision:** *accept* - 2 remarks", True),
        ("decision: “accept”", True),
        ("> decision: accept", False),
        ("He wrote decision: accept", False),
        ("```python\ndecision: accept\n```", False),
        ("```\n" + "x\n" * 3000 + "```\ndecision: accept", True),
        ("```\n" + "x\n" * 3000 + "decision: accept", False),
        ("decision: accept" + " " * 3000, False),
        ("decision: accepted", False),
        ("decision = accept", False),
        ("decision: redo\n# decision: accept", False),
        ("```print(3)``` is what it ran.\ndecision: accept", True),
        (
            "1. The code:\n   ```python\n" + "   x = 1\n" * 300 + "   ```\nIt is right.\ndecision: accept",
            True,
        ),
        ("1. The code:\n   ```python\n" + "   x = 1\n" * 300 + "decision: accept", False),
        ("```text\n```python\n```\ndecision: accept", True),
    ],
)
def test_what_counts_as_said(text: str, accepted: bool) -> None:
    until = {"agent": "judge_0", "says": "decision: 'Accept'."}
    order = order_of({"repeat": ["judge_0"], "times": 2, "until": until}, names=("judge_0",))
    assert len(play(order, {"judge_0": [text]})) == (1 if accepted else 2)


@pytest.mark.parametrize("says", ["Décision: oui", "Entscheidung: weiß", "決定: はい"])
def test_a_line_may_be_of_any_language(says: str) -> None:
    until = {"agent": "judge_0", "says": says}
    order = order_of({"repeat": ["judge_0"], "times": 2, "until": until}, names=("judge_0",))
    assert len(play(order, {"judge_0": [f"**{says.upper()}**"]})) == 1
    assert len(play(order, {"judge_0": ["no"]})) == 2


def test_hostile_texts_cost_little() -> None:
    """Texts that are made to be read slowly. Reading all of them again after every action took minutes."""
    until = {"agree": ["pro_0", "con_0"]}
    order = order_of({"repeat": ["pro_0", "con_0"], "times": 200, "until": until}, names=NAMES[:2])
    texts = ["the answer is " * 1400, "answer: " + " " * 19_000 + "#", "decision" * 2500, "a: " * 7000]
    began, past = time.process_time(), list[ActionRecord]()
    while (turn := order.next(past)) is not None:
        past.append(action(past, turn.agent.name, f"{len(past)} {texts[len(past) % 4]}"))
    assert len(past) == 400
    assert time.process_time() - began < 20


def test_a_round_in_which_nobody_acts_is_the_last() -> None:
    never = {"if": {"agent": "judge_0", "says": "next: pro"}, "then": ["pro_0"]}
    order = order_of("judge_0", {"repeat": [never], "times": 900}, "pro_0", names=("judge_0", "pro_0"))
    assert play(order, {"judge_0": ["no"]}) == ["judge_0", "pro_0"]


def test_a_branch_follows_what_the_host_saw() -> None:
    row = {"if": {"agent": "coder_0", "status": "ok"}, "then": ["judge_0"], "else": ["boss_0", "judge_0"]}
    order = order_of("coder_0", row, names=("coder_0", "judge_0", "boss_0"))
    for status, rest in (
        ("ok", ["judge_0"]),
        ("error", ["boss_0", "judge_0"]),
        (None, ["boss_0", "judge_0"]),
    ):
        past = [action([], "coder_0", "status: ok, it all worked", status=status)]
        found = []
        while (turn := order.next(past)) is not None:
            found.append(turn.agent.name)
            past.append(action(past, turn.agent.name, ""))
        assert found == rest, status


def test_a_manager_hands_over() -> None:
    order = order_of({"choose": "boss_0", "among": ["pro_0", "con_0"], "times": 3}, "judge_0", names=NAMES)
    says = {"boss_0": ["next: con_0", "I think\nNext: pro_0", "next: done"]}
    assert play(order, says) == ["boss_0", "con_0", "boss_0", "pro_0", "boss_0", "judge_0"]
    assert play(order, {"boss_0": ["next: nobody", "what?", "next: judge_0"]}) == ["boss_0"] * 3 + ["judge_0"]


def test_a_segment_goes_on_until_its_last_turn() -> None:
    order = order_of("coder_0", "judge_0", "coder_0", names=("coder_0", "judge_0"))
    past = [action([], "coder_0", "a", last=False)]
    turn = order.next(past)
    assert turn is not None
    assert (turn.agent.name, turn.number, turn.left, turn.returns) == ("coder_0", 1, 1, 0)
    past.append(action(past, "coder_0", "b"))
    past.append(action(past, "judge_0", "c"))
    turn = order.next(past)
    assert turn is not None
    assert (turn.agent.name, turn.number, turn.left, turn.returns) == ("coder_0", 2, 2, 1)
    assert [segment.text for segment in order.fresh(past)] == ["c"]


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, min_size=1, max_size=4), st.data())
def test_any_order_ends_and_shows_everybody_everything_once(rows: list[Any], data: st.DataObject) -> None:
    order = read_order([*rows, *TEAM.names], TEAM, "card.yaml")
    past: list[ActionRecord] = []
    shown: dict[str, list[int]] = {name: [] for name in TEAM.names}
    segments: list[str] = []
    begun = True
    while (turn := order.next(past)) is not None:
        name = turn.agent.name
        assert order.next(list(past)) == turn, "the same actions give the same turn"
        assert turn.number == sum(one.agent == name for one in past) < order.most_turns
        assert 1 <= turn.left <= turn.agent.max_turns
        if begun:
            new = [one.step for segment in order.fresh(past) for one in segment.actions]
            assert not set(new) & set(shown[name]), "nothing is shown twice"
            assert all(past[step].agent != name for step in new)
            shown[name] += new
            segments.append(name)
        last = turn.left == 1 or data.draw(st.booleans())
        status = data.draw(st.sampled_from(["ok", "error"])) if name == "coder_0" else None
        past.append(action(past, name, data.draw(st.sampled_from(SAYINGS)), last=last, status=status))
        begun = last
    assert len(past) <= order.most_actions
    assert order.over(past)
    assert not order.over(past[:-1])
    assert order.fewest_segments <= len(segments)
    for name, most in order.most_segments.items():
        assert segments.count(name) <= most
    # Everybody acts once more at the end, so all that others did before is seen by then.
    for name, seen in shown.items():
        final = max(one.step for one in past if one.agent == name and is_first(past, one))
        assert sorted(seen) == [one.step for one in past[:final] if one.agent != name]


def is_first(past: Sequence[ActionRecord], one: ActionRecord) -> bool:
    """Whether a segment begins with it."""
    return one.step == 0 or past[one.step - 1].last_turn


@pytest.mark.parametrize("times", [1, 2])
def test_parallel_agents_see_each_other_a_round_later(times: int) -> None:
    order = order_of({"repeat": [{"parallel": ["pro_0", "con_0"]}], "times": times}, names=NAMES[:2])
    past: list[ActionRecord] = []
    seen = []
    while (turn := order.next(past)) is not None:
        seen.append([segment.text for segment in order.fresh(past)])
        past.append(action(past, turn.agent.name, f"{turn.agent.name} {turn.returns}"))
    assert seen == [[], [], ["con_0 0"], ["pro_0 0"]][: 2 * times]


def nested(depth: int) -> list[Any]:
    rows: list[Any] = ["pro_0"]
    for _ in range(depth):
        rows = [{"repeat": rows, "times": 1}]
    return rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("pro_0", "order must be a list of steps, found 'pro_0'"),
        ([], "order must be a list of steps, found []"),
        (["pro_0", "con_1"], "order[1] names 'con_1', which is not in the team"),
        (["pro_0", "con_0"], "order never lets coder_0 act"),
        ([{"repeat": ["pro_0"], "times": 0}], "order[0].times must be an integer >= 1, found 0"),
        ([{"repeat": ["pro_0"], "times": 2, "untill": 1}], "unknown key 'untill'. Did you mean 'until'?"),
        ([{"repeat": ["pro_0"]}], "order[0].times must be an integer >= 1, found None"),
        ([{"repeat": ["pro_0"], "times": 10**6}, "con_0", "coder_0"], "allows 1,000,003 actions"),
        ([{"if": {"agree": ["pro_0", "con_0"]}, "then": ["pro_0"]}], "order can end before anybody acts"),
        ([{"if": {"agent": "pro_0", "says": "ok: '.'"}, "then": ["pro_0"]}], "one word of letters, a colon"),
        (nested(2000), "order has more than 20 steps in steps"),
        ([{"parallel": ["pro_0"]}], "order[0].parallel must list 2 or more different agents"),
        ([{"parallel": ["pro_0", "pro_0"]}], "order[0].parallel must list 2 or more different agents"),
        ([{"parallel": ["pro_0", "coder_0"]}], "order[0].parallel names coder_0, which has Python"),
        ([{"choose": "pro_0", "among": ["pro_0"], "times": 1}], "order[0].among names pro_0, which chooses"),
        (
            [{"if": {"agent": "pro_0", "status": "ok"}, "then": ["pro_0"]}],
            "pro_0, which does not have Python",
        ),
        (
            [{"if": {"agent": "coder_0", "status": "fine"}, "then": ["pro_0"]}],
            "if.status='fine' must be one of",
        ),
        (
            [{"if": {"agent": "pro_0", "says": "yes"}, "then": ["pro_0"]}],
            "word of letters, a colon",
        ),
        (
            [{"if": {"agent": "pro_0", "says": f"{'x' * 41}: yes"}, "then": ["pro_0"]}],
            "word of letters, a colon",
        ),
        (
            [{"if": {"agent": "pro_0", "says": f"a: {'x' * 81}"}, "then": ["pro_0"]}],
            "word of letters, a colon",
        ),
        ([{"if": "yes", "then": ["pro_0"]}], "order[0].if must be {agent"),
        ([{"wait": 1}], "order[0] must be an agent or a mapping with one of"),
        ([["pro_0"]], "order[0] must be an agent or a mapping with one of"),
    ],
)
def test_a_wrong_order_is_refused_with_its_place(rows: Any, words: str) -> None:
    team = Team((TEAM["pro_0"], TEAM["con_0"], TEAM["coder_0"]))
    with pytest.raises(CardError) as caught:
        read_order(rows, team, "card.yaml")
    assert str(caught.value).startswith("card.yaml: ")
    assert words in str(caught.value)
