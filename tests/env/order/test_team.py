"""A team that returns, branches and acts in parallel, through every interface."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import yaml

from debate import CARD, DISAGREED, OPTIONS, TURNS, write_debate
from mappa_env import team_env
from mappa_env.cards import read_card
from mappa_env.envs.aec import env as aec_env
from mappa_env.envs.gym_env import make_env
from mappa_env.errors import CardError
from mappa_env.testing import check_environment


@pytest.fixture
def card(tmp_path: Path) -> Path:
    return write_debate(tmp_path)


@pytest.fixture
def env(card: Path) -> Iterator[gym.Env[Any, str]]:
    made = make_env(str(card), **OPTIONS)
    yield made
    made.close()


def play(env: gym.Env[Any, str], *texts: str) -> list[tuple[str, int, list[dict[str, str]]]]:
    """(agent, turn, messages) of every action."""
    observation, info = env.reset(seed=1)
    found, over = [], False
    for text in texts:
        assert not over
        assert observation in env.observation_space
        found.append((info["agent"], int(observation["turn"]), info["messages"]))
        observation, _, over, _, info = env.step(text)
    assert over
    return found


def test_the_turns_of_an_episode(env: gym.Env[Any, str]) -> None:
    assert [row[:2] for row in play(env, "answer: 5", "answer: 5", r"\boxed{5}")] == [
        ("pro_0", 0),
        ("con_0", 0),
        ("judge_0", 0),
    ]
    assert [row[:2] for row in play(env, *DISAGREED)] == TURNS


def test_every_agents_messages_extend_its_last(env: gym.Env[Any, str]) -> None:
    rows = play(env, *DISAGREED)
    for agent in ("pro_0", "con_0", "coder_0"):
        mine = [
            (messages, text)
            for (name, _, messages), text in zip(rows, DISAGREED, strict=True)
            if name == agent
        ]
        for (before, said), (after, _) in itertools.pairwise(mine):
            assert after[:-1] == [*before, {"role": "assistant", "content": said}]
            assert after[-1]["role"] == "user"


def test_who_sees_what(env: gym.Env[Any, str]) -> None:
    news = [(agent, messages[-1]["content"].splitlines()[1:]) for agent, _, messages in play(env, *DISAGREED)]
    assert news[:2] == [("pro_0", []), ("con_0", [])], "parallel agents do not see each other"
    assert news[2:4] == [("pro_0", ["con_0 said 2."]), ("con_0", ["pro_0 said 1."])]
    assert news[6] == ("coder_0", ["pro_0 said 1.", "con_0 said 2."] * 3)
    assert news[8] == ("pro_0", ["con_0 said 2.", "coder_0 said ```python", "print(3)", "```", "3."])
    assert news[9][1][-1] == "pro_0 said so 3."


def test_the_closing_action_is_graded_and_every_action_rewarded(env: gym.Env[Any, str]) -> None:
    env.reset(seed=1)
    right = team_env(env).trajectory.task.truth["answer"]
    for text in (f"answer: {right}", rf"\boxed{{{right}}}"):
        _, _, over, _, info = env.step(text)
        assert not over
        assert not info["reward_valid"]
    _, _, over, _, info = env.step(rf"\boxed{{{right}}}")
    assert over
    assert info["outcome/success"]
    assert info["rewards"] == [10.0] * 3


def test_a_recorded_episode_replays(env: gym.Env[Any, str]) -> None:
    play(env, *DISAGREED)
    first = team_env(env).trajectory
    env.reset(seed=1)
    for action in first.actions:
        env.step(action.action)
    again = team_env(env).trajectory
    assert [(a.agent, a.turn, a.messages, a.seed, a.reward) for a in again.actions] == [
        (a.agent, a.turn, a.messages, a.seed, a.reward) for a in first.actions
    ]


def test_rewards_of_a_returning_agent_arrive_once_in_pettingzoo(card: Path) -> None:
    made = aec_env(str(card), **OPTIONS)
    made.reset(seed=1)
    texts, total, agents = list(DISAGREED), dict.fromkeys(made.possible_agents, 0.0), []
    for agent in made.agent_iter():
        _, reward, terminated, _, _ = made.last()
        total[agent] += reward
        if not terminated:
            agents.append(agent)
        made.step(None if terminated else texts.pop(0))
    rewards = team_env(made).rewards
    made.close()
    assert agents == [agent for agent, _ in TURNS]
    for agent in total:
        assert total[agent] == sum(r for (r, _), name in zip(rewards, agents, strict=True) if name == agent)


def test_the_conformance_suites_pass(card: Path) -> None:
    report = check_environment(card, **OPTIONS)
    assert [(result.name, result.detail) for result in report.results if not result.ok] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"order": [*CARD["order"], {"wait": 1}]}, "order[2] must be an agent or a mapping with one of"),
        ({"team": [*CARD["team"][1:], {"name": "again_0"}]}, "again.jinja is another prompt's file"),
    ],
)
def test_what_does_not_fit_is_refused(card: Path, change: dict[str, Any], words: str) -> None:
    (card / "rubric.yaml").write_text("version: 1\n")
    (card / "card.yaml").write_text(yaml.safe_dump(CARD | change))
    with pytest.raises(CardError) as caught:
        read_card(card)
    assert words in str(caught.value)


def test_a_team_that_returns_needs_its_prompt(card: Path) -> None:
    (card / "prompts" / "full" / "again.jinja").unlink()
    with pytest.raises(CardError, match=r"again\.jinja"):
        read_card(card)
