"""``mappa_env.team_env`` returns the team environment behind any environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pettingzoo
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, BaseWrapper

from mappa_env import team_env
from mappa_env.envs.team_env import TeamEnv
from mappa_env.errors import OptionError

ID = "mappa/MathChat-v0"
MAKERS: dict[str, Callable[[], Any]] = {
    "self-play": lambda: gym.make(ID, sandbox="null"),
    "single agent": lambda: gym.make(ID, sandbox="null", agent="coder_0"),
    "wrapped": lambda: TransformReward(
        TimeLimit(RecordEpisodeStatistics(gym.make(ID, sandbox="null")), 3), lambda reward: reward / 10
    ),
    "bare": lambda: gym.make(ID, sandbox="null").unwrapped,
    "of a vector": lambda: gym.make_vec(ID, num_envs=2, sandbox="null").unwrapped.envs[1],
    "aec": lambda: pettingzoo.make("aec", ID, sandbox="null"),
    "aec wrapped": lambda: AssertOutOfBoundsWrapper(BaseWrapper(pettingzoo.make("aec", ID, sandbox="null"))),
    "parallel": lambda: pettingzoo.make("parallel", ID, sandbox="null"),
    "converted": lambda: turn_based_aec_to_parallel(pettingzoo.make("aec", ID, sandbox="null")),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_it_reaches_the_team_environment(maker: str) -> None:
    env = MAKERS[maker]()
    found = team_env(env)
    assert isinstance(found, TeamEnv)
    env.reset(seed=3)
    assert found.trajectory.task.id in found.task_ids
    assert found.card.id == "MathChat-v0"
    env.close()


@pytest.mark.parametrize("mode", [None, "sync"])
def test_a_vector_environment_is_refused_with_the_remedy(mode: str | None) -> None:
    env = gym.make_vec(ID, num_envs=2, vectorization_mode=mode, sandbox="null")
    with pytest.raises(OptionError, match=r"envs\[i\]"):
        team_env(env)
    env.close()


@pytest.mark.parametrize("foreign", [gym.make("CartPole-v1"), None, "mappa/MathChat-v0", object()])
def test_anything_else_is_refused(foreign: Any) -> None:
    with pytest.raises(OptionError, match="is not an environment of mappa_env"):
        team_env(foreign)


def test_the_same_seed_and_actions_lead_to_the_same_state() -> None:
    first, second = MAKERS["self-play"](), MAKERS["self-play"]()
    for env in (first, second):
        env.reset(seed=3)
        env.step("plan: 1 + 1")
    left, right = first.step("result: 2"), second.step("result: 3")
    assert team_env(first).trajectory.task == team_env(second).trajectory.task
    assert left[0]["prompt"] != right[0]["prompt"]


@pytest.mark.parametrize("maker", ["self-play", "aec", "parallel"])
def test_unknown_reset_options_are_refused(maker: str) -> None:
    env = MAKERS[maker]()
    with pytest.raises(OptionError, match=r"unknown reset option 'task'.*'task_id'"):
        env.reset(seed=1, options={"task": team_env(env).task_ids[0]})
    env.close()


def test_a_time_limit_truncates_without_an_outcome() -> None:
    env = TimeLimit(gym.make(ID, sandbox="null"), 2)
    env.reset(seed=3)
    env.step("plan: 1 + 1")
    _, _, terminated, truncated, info = env.step("result: 2")
    assert (terminated, truncated) == (False, True)
    assert not [key for key in info if key.startswith("outcome/") or key == "rewards"]
    env.close()


def test_importing_is_fast_and_light() -> None:
    """Best of five: under 0.2 s on an idle machine. The bound leaves room for a busy one."""
    code = (
        "import sys, time, gymnasium, pettingzoo; start = time.process_time(); import mappa_env; "
        "print(time.process_time() - start); heavy = {'torch', 'pandas', 'sklearn', 'pydantic'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    found = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(found) < 0.2
