"""The threaded vector equals gymnasium's own in every autoreset mode, and is really concurrent."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mappa_env import team_env
from mappa_env.envs.vector import ThreadedVectorEnv
from mappa_env.errors import OptionError

ID = "mappa/MathChat-v0"
FAST: dict[str, Any] = {"sandbox": "null"}
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


def threaded(n: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP, **options: Any) -> Any:
    return gym.make_vec(ID, num_envs=n, autoreset_mode=mode, **{**FAST, **options})


def sync(n: int, mode: AutoresetMode) -> Any:
    return gym.make_vec(
        ID, num_envs=n, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **FAST
    )


def assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, tuple):
        assert len(left) == len(right)
        for mine, other in zip(left, right, strict=True):
            assert_same(mine, other)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()
    else:
        assert left == right


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [3, [5, None, 7], [9, 9, 9]])
def test_equal_to_gymnasiums_own(mode: AutoresetMode, seed: Any) -> None:
    ours, theirs = threaded(3, mode), sync(3, mode)
    if isinstance(seed, list) and None in seed:  # only seeded environments can be compared
        ours.reset(seed=1)
        theirs.reset(seed=1)
    assert_same(ours.reset(seed=seed), theirs.reset(seed=seed))
    for step in range(11):
        actions = [["plan: 1", "```python\n1\n```", "\\boxed{3}"][(step + i) % 3] for i in range(3)]
        mine, reference = ours.step(actions), theirs.step(actions)
        assert_same(mine, reference)
        if mode == AutoresetMode.DISABLED and mine[2].any():
            assert_same(
                ours.reset(options={"reset_mask": mine[2]}), theirs.reset(options={"reset_mask": mine[2]})
            )
    ours.close()
    theirs.close()


def test_same_step_keeps_the_closing_reward_in_the_final_info() -> None:
    """Masking by ``final_info`` gives every reward of an episode exactly once."""
    env = threaded(1, AutoresetMode.SAME_STEP)
    env.reset(seed=3)
    kept, over = [], False
    while not over:
        _, rewards, terminations, _, infos = env.step(["```python\nprint(1)\n```"])
        over = bool(terminations[0])
        kept.append((rewards[0], bool((infos["final_info"] if over else infos)["reward_valid"][0])))
    assert infos["_final_info"][0]
    assert not infos["reward_valid"][0]  # of the reset
    final = infos["final_info"]
    assert kept == list(zip(final["rewards"][0], final["rewards_valid"][0], strict=True))
    assert kept[-1][1]
    env.close()


def test_metadata_and_spaces() -> None:
    env = threaded(2, AutoresetMode.SAME_STEP)
    assert isinstance(env, ThreadedVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observations, infos = env.reset(seed=0)
    assert observations in env.observation_space
    assert env.action_space.sample() in env.action_space
    assert infos["task_id"].shape == (2,)
    assert env.spec.kwargs["num_envs"] == 2
    assert len(env.get_attr("team_env")) == 2
    assert env.call("reset", seed=3)[0][0] == env.call("reset", seed=3)[1][0]
    env.close()
    env.close()


def test_disabled_autoreset_refuses_to_step_what_is_over() -> None:
    env = threaded(2, AutoresetMode.DISABLED)
    env.reset(seed=0)
    for _ in range(3):
        _, _, terminations, _, _ = env.step(["done", "done"])
    assert terminations.all()
    with pytest.raises(ValueError, match="reset_mask"):
        env.step(["x", "x"])
    with pytest.raises(ValueError, match="at least one True"):
        env.reset(options={"reset_mask": np.zeros(2, dtype=bool)})
    with pytest.raises(ValueError, match="2 bools"):
        env.reset(options={"reset_mask": np.ones(3, dtype=bool)})
    options = {"reset_mask": np.array([True, False])}
    env.reset(options=options)
    assert list(options) == ["reset_mask"]  # the caller's dict is unchanged
    env.close()


def test_task_options_reach_every_environment() -> None:
    env = threaded(2)
    task_id = team_env(env.envs[0]).task_ids[5]
    _, infos = env.reset(seed=0, options={"task_id": task_id})
    assert infos["task_id"].tolist() == [task_id, task_id]
    env.close()


@pytest.mark.parametrize("wrong", [{"num_envs": 0}, {"threads": 0}])
def test_sizes_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="at least 1"):
        ThreadedVectorEnv(card="mathchat", **FAST, **wrong)


def test_wrong_number_of_actions_or_seeds() -> None:
    env = threaded(2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected 2 actions, found 1"):
        env.step(["x"])
    with pytest.raises(ValueError, match="expected 2 seeds, found 3"):
        env.reset(seed=[1, 2, 3])
    env.close()


def test_an_error_in_one_environment_comes_out_when_all_have_finished() -> None:
    env = threaded(3)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="an action is a str"):
        env.step(["x", 5, "x"])
    assert [team_env(single).episode.agent for single in env.envs] == ["coder_0", "solver_0", "coder_0"]
    env.close()


def test_environments_wait_together() -> None:
    """Four actions that sleep take less time than they would take sequentially."""
    env = threaded(4, sandbox="process", coach="off")
    env.reset(seed=0)
    env.step(["plan: 1"] * 4)
    start = time.perf_counter()
    _, _, _, _, infos = env.step(["```python\nimport time; time.sleep(1.5)\n```"] * 4)
    tools = [team_env(single).episode.actions[-1].tool for single in env.envs]
    assert time.perf_counter() - start < sum(tool.wall_s for tool in tools if tool is not None)
    assert infos["tool/status"].tolist() == ["ok"] * 4
    env.close()
