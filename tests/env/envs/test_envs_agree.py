"""The same seed and actions give the same episode in every interface."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env import team_env
from mappa_env.errors import EpisodeError, OptionError
from mappa_env.testing.conformance import comparable
from mappa_env.types import Trajectory

ID = "mappa/MathChat-v0"
TEXTS = ["plan: 2 * 3", "```python\nprint(6)\n```", "result: 6", "answer: \\boxed{6}"]
ACTIONS = st.lists(
    st.sampled_from(["plan: 1 + 1", "```python\nprint(2)\n```", "result: 2", "\\boxed{2}", ""])
    | st.text(max_size=9),
    min_size=4,
    max_size=4,
)


def self_play(texts: list[str], seed: int, **options: Any) -> tuple[Trajectory, list[Any]]:
    env = gym.make(ID, **options)
    observation, info = env.reset(seed=seed)
    steps: list[Any] = [(observation, info)]
    for text in texts:
        observation, reward, over, _, info = env.step(text)
        steps.append((observation, info, reward))
        if over:
            break
    trajectory: Trajectory = team_env(env).trajectory
    env.close()
    return trajectory, steps


def aec(texts: list[str], seed: int, **options: Any) -> tuple[Trajectory, list[Any]]:
    """Steps in the form of ``self_play``: the next agent's observation and the acting agent's reward."""
    env: Any = pettingzoo.make("aec", ID, **options)
    env.reset(seed=seed)
    agent = env.agent_selection
    steps: list[Any] = [(env.observe(agent), env.infos[agent])]
    for text in texts:
        agent = env.agent_selection
        env.step(text)
        over = env.terminations[agent]
        after = agent if over else env.agent_selection
        info = {**env.infos[agent], "messages": env.infos[after]["messages"]}
        steps.append((env.observe(after), info, env.rewards[agent]))
        if over:
            break
    trajectory: Trajectory = team_env(env).trajectory
    env.close()
    return trajectory, steps


@settings(max_examples=25, deadline=None)
@given(texts=ACTIONS, seed=st.integers(0, 2**32))
def test_gymnasium_and_pettingzoo_show_the_same(texts: list[str], seed: int) -> None:
    mine, steps = self_play(texts, seed, sandbox="null")
    other, others = aec(texts, seed, sandbox="null")
    assert comparable(mine) == comparable(other)
    assert steps == others


@pytest.mark.slow
@pytest.mark.parametrize("prompts", ["full", "compact"])
@pytest.mark.parametrize("feedback", ["off", "agents"])
def test_with_real_code_and_every_way_of_prompting(prompts: str, feedback: str) -> None:
    options = {"prompts": prompts, "coach_feedback": feedback}
    mine, steps = self_play(TEXTS, 5, **options)
    other, others = aec(TEXTS, 5, **options)
    assert comparable(mine) == comparable(other)
    assert steps == others
    assert mine.actions[1].tool is not None
    assert mine.actions[1].tool.stdout == "6\n"


def test_messages_of_a_segment_extend_each_other() -> None:
    _, steps = self_play(TEXTS, 5)
    first, second = steps[1][1]["messages"], steps[2][1]["messages"]
    assert steps[1][1]["agent"] == steps[2][1]["agent"] == "coder_0"
    assert second[:-2] == first
    assert second[-2] == {"role": "assistant", "content": TEXTS[1]}


def test_the_end_is_an_empty_prompt_and_the_outcome() -> None:
    _, steps = self_play(TEXTS, 5)
    observation, info, _ = steps[-1]
    assert observation == {"prompt": "", "agent": 2, "turn": 0}
    assert (info["agent"], info["acted"], info["messages"]) == ("", "verifier_0", [])
    assert set(info) - set(steps[0][1]) == {
        "outcome/score",
        "outcome/success",
        "outcome/status",
        "outcome/metrics",
        "rewards",
        "rewards_valid",
    }


def test_infos_keep_their_types() -> None:
    """A vector's info arrays take the first value's type."""
    _, steps = self_play(TEXTS, 5)
    for (_, before, *_), (_, after, *_) in itertools.pairwise(steps):
        assert {key: type(value) for key, value in before.items()} == {
            key: type(after[key]) for key in before
        }


def test_a_missing_score_gives_no_valid_reward() -> None:
    _, steps = self_play(TEXTS, 5, coach="off")
    for _, info, reward in steps[1:]:
        assert (reward, info["reward_valid"], info["coach/status"]) == (0.0, False, "abstain")


@pytest.mark.parametrize("agent", ["solver_0", "coder_0", "verifier_0"])
def test_a_single_agent_gets_the_rewards_of_its_actions(agent: str) -> None:
    env = gym.make(ID, agent=agent, partners="faulty", sandbox="calculator")
    observation, info = env.reset(seed=3)
    assert info["agent"] == agent
    rewards, over = [], False
    while not over:
        assert observation["agent"] == ["solver_0", "coder_0", "verifier_0"].index(agent)
        observation, reward, over, _, info = env.step("```python\nprint(6)\n```")
        rewards.append((reward, info["reward_valid"]))
    actions = team_env(env).trajectory.actions
    assert rewards == [(a.reward, a.reward_valid) for a in actions if a.agent == agent]
    env.close()


@pytest.mark.parametrize("shaping", ["process", "mixed"])
def test_an_agent_that_nobody_calls_ends_its_episode_with_any_text(shaping: str) -> None:
    """A faulty manager may never call its coder."""
    options = {"agent": "coder_0", "partners": "faulty", "sandbox": "calculator", "shaping": shaping}
    env = gym.make("mappa/MathManager-v0", **options)
    left_out = 0
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        if not team_env(env).episode.over:
            continue
        left_out += 1
        assert observation["prompt"] == ""
        _, reward, over, truncated, info = env.step("result: 6")
        assert (reward, over, truncated, info["reward_valid"]) == (0.0, True, False, False)
        assert "coder_0" not in {action.agent for action in team_env(env).trajectory.actions}
        with pytest.raises(EpisodeError, match=r"call reset\(\) first"):
            env.step("result: 6")
    assert left_out
    env.close()


def test_partners_can_be_chosen_one_by_one() -> None:
    partners = {"solver_0": "expert", "coder_0": {"fault": "miscopied_result"}}
    env = gym.make(ID, agent="verifier_0", partners=partners, sandbox="calculator")
    assert env.spec is not None
    twin = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert env.reset(seed=1)[0] == twin.reset(seed=1)[0]
    printed = team_env(env).trajectory.actions[1].tool.stdout.strip()
    assert f"result: {printed}" not in team_env(env).trajectory.actions[2].action
    env.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agent": "coder"}, "Did you mean 'coder_0'"),
        ({"agent": "coder_0", "partners": "experts"}, "Did you mean 'expert'"),
        ({"agent": "coder_0", "partners": {"coder_0": "expert"}}, "the partners are solver_0, verifier_0"),
        ({"agent": "coder_0", "partners": {"solver_0": {"fault": "no_bx"}}}, "has no fault"),
        ({"partners": "expert"}, "needs agent="),
        ({"seat": "coder_0"}, "the option 'seat' is now 'agent'"),
        ({"coch": "off"}, "Did you mean 'coach'"),
        ({"recrod": "x"}, "Did you mean 'record'"),
        ({"coach": "of"}, "Did you mean 'off'"),
        ({"sandbox": "proces"}, "Did you mean 'process'"),
        ({"prompts": "short"}, "prompts='short'"),
        ({"shaping": "outcom"}, "Did you mean 'outcome'"),
        ({"coach_feedback": "on"}, "coach_feedback='on'"),
        ({"tasks": "trian"}, "Did you mean 'train'"),
        ({"limits": {"wall": 1}}, "Did you mean 'wall_s'"),
        ({"limits": {"wall_s": 0}}, "must be a positive number"),
        ({"task_options": {"nonsense": 1}}, "nonsense"),
    ],
)
def test_wrong_options_name_the_right_ones(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        gym.make(ID, **options)


def test_rewards_known_only_at_the_end_reach_everybody() -> None:
    """``shaping="outcome"``: every action has the outcome's reward, and the closing step delivers the sum."""
    env: Any = pettingzoo.make("aec", ID, shaping="outcome", sandbox="calculator", tasks="train")
    env.reset(seed=5)
    answer = team_env(env).episode.task.truth["answer"]
    texts = [*TEXTS[:3], f"\\boxed{{{answer}}}"]
    returns = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        _, reward, over, _, _ = env.last()
        returns[agent] += reward
        env.step(None if over else texts.pop(0))
    assert returns == {"solver_0": 10.0, "coder_0": 20.0, "verifier_0": 10.0}
    single = gym.make(ID, agent="solver_0", shaping="outcome", sandbox="calculator", prompts="compact")
    single.reset(seed=5)
    expr = team_env(single).episode.task.meta["expr"]
    _, reward, over, _, info = single.step(f"plan: {expr}")
    assert (reward, over, info["reward_valid"]) == (10.0, True, True)


def test_pettingzoo_rewards_add_up() -> None:
    """The sums of ``rewards`` and of ``last()`` both equal the actions' rewards."""
    trajectory, _ = self_play(TEXTS, 8)
    env: Any = pettingzoo.make("aec", ID)
    env.reset(seed=8)
    texts = list(TEXTS)
    immediate = collected = 0.0
    for _ in env.agent_iter():
        _, reward, over, _, _ = env.last()
        collected += reward
        env.step(None if over else texts.pop(0))
        immediate += sum(env.rewards.values())
    assert collected == pytest.approx(immediate) == pytest.approx(sum(a.reward for a in trajectory.actions))
    assert collected > 0.0
    env.close()


def test_the_seed_alone_decides() -> None:
    first, _ = self_play(TEXTS, 1)
    again, _ = self_play(TEXTS, 1)
    other, _ = self_play(TEXTS, 2)
    assert comparable(first) == comparable(again)
    assert (first.seed, first.task.id) != (other.seed, other.task.id)
    assert first.seed == int(np.random.default_rng(np.random.SeedSequence(1)).integers(2**63))
