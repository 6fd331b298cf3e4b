"""The check of a manager that keeps others busy, in real episodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from mappa_env.cards import read_card
from mappa_env.episode.episode import Episode
from mappa_env.types import ActionRecord
from paths import REGISTRY


@pytest.fixture
def game() -> Iterator[Episode]:
    with closing(Episode(read_card(REGISTRY / "math_manager"), sandbox="calculator")) as made:
        made.reset(seed=0, task_id="train-arithmetic-00000")
        yield made


def right(game: Episode) -> str:
    return str(game.task.meta["expr"])


def of(actions: list[ActionRecord], agent: str) -> list[float]:
    return [action.reward for action in actions if action.agent == agent]


def test_a_call_of_who_has_just_done_its_part_earns_little(game: Episode) -> None:
    actions = [game.act(text) for text in ("next: solver_0", f"plan: {right(game)}", "next: solver_0")]
    assert of(actions, "manager_0") == [10.0, 1.0]
    assert "again" in actions[-1].verdict.reasoning
    assert actions[-1].verdict.blame == "manager_0"


@pytest.mark.parametrize("plan", ["plan: 1", "I do not know.", ""])
def test_a_call_of_who_has_not_done_its_part_is_right(game: Episode, plan: str) -> None:
    actions = [game.act(text) for text in ("next: solver_0", plan, "next: solver_0")]
    assert of(actions, "manager_0") == [10.0, 10.0]


def test_a_coder_that_printed_nothing_may_be_called_again(game: Episode) -> None:
    actions = [game.act(text) for text in ("next: coder_0", "I cannot.", "next: coder_0")]
    assert of(actions, "manager_0") == [10.0, 10.0]


def test_a_call_in_the_last_turn_leaves_none_to_answer(game: Episode) -> None:
    texts = ["next: solver_0", "no plan"] * 3 + ["next: solver_0"]
    actions = [game.act(text) for text in texts]
    assert of(actions, "manager_0") == [10.0, 10.0, 10.0, 1.0]
    assert "last turn" in actions[-1].verdict.reasoning
    game.act("no plan")
    assert game.over


def test_turns_that_name_nobody_count_as_turns(game: Episode) -> None:
    for _ in range(3):
        assert game.act("next: nobody").reward == 0.0
    assert game.act("next: coder_0").reward == 1.0


def test_no_manager_can_earn_more_by_keeping_others_busy(game: Episode) -> None:
    """Whatever the solver says, four calls earn less than two and the answer."""
    busy = [game.act(text) for text in ["next: solver_0", f"plan: {right(game)}"] * 4]
    game.reset(seed=0, task_id="train-arithmetic-00000")
    texts = [
        "next: solver_0",
        f"plan: {right(game)}",
        "next: coder_0",
        f"```python\nprint({right(game)})\n```",
    ]
    done = [game.act(text) for text in texts]
    result = done[-1].tool.stdout.strip() if done[-1].tool else ""
    done += [game.act(text) for text in (f"result: {result}", f"answer: \\boxed{{{result}}}\nnext: done")]
    assert game.over
    assert sum(of(done, "manager_0")) == 30.0
    assert sum(of(busy, "manager_0")) == 13.0
