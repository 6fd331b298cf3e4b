"""The conformance suites of ``check_environment``. Each raises at the first problem."""

from __future__ import annotations

import contextlib
import copy
import pickle
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import pettingzoo
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers.vector import DictInfoToList
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)
from pettingzoo.utils.conversions import parallel_to_aec

from mappa_env import team_env
from mappa_env.envs.aec import raw_env
from mappa_env.envs.partners import Partners
from mappa_env.registration import find_card
from mappa_env.types import ActionRecord, Trajectory

SEED = 7
TEXTS = ("```python\nprint(6 * 7)\n```", "The answer is \\boxed{42}.", "", "```python\n1 / 0\n```", "done")
"""Actions for cards without a scripted team: tool calls that succeed or fail, and plain text."""

HOSTILE = (
    "",
    "\x00",
    "\ud800",
    "\u202e\x1b[2J",
    "<think>",
    "</think></think>",
    "```python\n",
    "<tool_call>{</tool_call>",
    "```python\n\x00\n```",
    "\\boxed{" * 1000,
    "x" * 200_000,
)


@dataclass(frozen=True, slots=True)
class Case:
    """The environment under check."""

    env_id: str
    card: str
    options: dict[str, Any]

    def make(self, **more: Any) -> gym.Env[Any, str]:
        """The Gymnasium environment, with further options."""
        return gym.make(self.env_id, **self.options, **more)

    def parallel(self, **more: Any) -> Any:
        """The PettingZoo parallel environment."""
        return pettingzoo.make("parallel", self.env_id, **self.options, **more)

    def aec(self, **more: Any) -> Any:
        """The PettingZoo AEC environment."""
        return pettingzoo.make("aec", self.env_id, **self.options, **more)


def gymnasium_check_env(case: Case) -> None:
    """Gymnasium's ``check_env`` on the self-play interface."""
    env = case.make()
    check_env(env.unwrapped)
    env.close()


def gymnasium_single_agent(case: Case) -> None:
    """Gymnasium's ``check_env`` on the single-agent interface."""
    card = find_card(case.card)
    if card.scripted is None:
        return  # no scripted partners
    env = case.make(agent=card.team.names[0])
    check_env(env.unwrapped)
    env.close()


def spec_round_trip(case: Case) -> None:
    """Copies of the spec make the same environment, and spaces can be copied and pickled."""
    env = case.make()
    spec = env.spec
    assert spec is not None, "env.spec is None: an option cannot be copied"
    for twin in (EnvSpec.from_json(spec.to_json()), pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):  # noqa: S301
        other = gym.make(twin)
        assert other.reset(seed=SEED)[0] == env.reset(seed=SEED)[0], "a copied spec makes another environment"
        other.close()
    for space in (env.observation_space, env.action_space):
        assert pickle.loads(pickle.dumps(space)) == space == copy.deepcopy(space), f"{space} does not copy"  # noqa: S301
    env.close()


def pettingzoo_api_test(case: Case) -> None:
    """PettingZoo's ``api_test``, with and without the order-enforcing wrapper."""
    for env in (case.aec(), raw_env(case.card, **case.options)):  # the wrapper hides what step() returns
        api_test(env, num_cycles=50)
        env.close()


def pettingzoo_seed_test(case: Case) -> None:
    """PettingZoo's seed tests, AEC and parallel."""
    seed_test(case.aec, num_cycles=50)
    parallel_seed_test(case.parallel, num_cycles=50)


def pettingzoo_parallel_api_test(case: Case) -> None:
    """PettingZoo's ``parallel_api_test``, and ``api_test`` on what PettingZoo makes of the environment."""
    env = case.parallel()
    parallel_api_test(env, num_cycles=50)
    api_test(parallel_to_aec(env), num_cycles=50)
    env.close()


def pettingzoo_state_test(case: Case) -> None:
    """PettingZoo's ``state_test``, AEC and parallel."""
    envs = case.aec(), case.parallel()
    state_test(*envs)
    for env in envs:
        env.close()


def pettingzoo_render_test(case: Case) -> None:
    """PettingZoo's ``render_test``, AEC and parallel."""
    render_test(case.aec)
    render_test(lambda **more: parallel_to_aec(case.parallel(**more)))


def sync_vector(case: Case) -> None:
    """Gymnasium's synchronous vector equals single environments."""
    _vector_equals_sequential(case, vectorization_mode="sync")


def async_vector(case: Case) -> None:
    """Gymnasium's asynchronous vector equals single environments."""
    _vector_equals_sequential(case, vectorization_mode="async", vector_kwargs={"shared_memory": False})


def threaded_vector(case: Case) -> None:
    """The threaded vector equals single environments."""
    _vector_equals_sequential(case)


def same_seed_same_episode(case: Case) -> None:
    """A seed repeats an episode, and different seeds draw different tasks."""
    first, again = (play(case, SEED) for _ in range(2))
    assert comparable(first) == comparable(again), "the same seed and actions gave another episode"
    env = case.make()
    tasks = {env.reset(seed=seed)[1]["task_id"] for seed in range(20)}
    count = len(team_env(env).task_ids)
    env.close()
    assert len(tasks) > 1 or count == 1, f"20 seeds drew the same of {count} tasks"


def interfaces_agree(case: Case) -> None:
    """The same seed and actions give the same texts, rewards and file histories in every interface."""
    reference = play(case, SEED)
    texts = [action.action for action in reference.actions]
    aec = case.aec()
    aec.reset(seed=SEED)
    rewards = dict.fromkeys(aec.possible_agents, 0.0)
    collected = dict.fromkeys(aec.possible_agents, 0.0)
    for agent in aec.agent_iter():
        _, reward, terminated, _, _ = aec.last()
        collected[agent] += reward
        aec.step(None if terminated else texts.pop(0))
        for name, value in aec.rewards.items():
            rewards[name] += value
    assert comparable(team_env(aec).trajectory) == comparable(reference), "gymnasium and pettingzoo differ"
    assert rewards == collected, f"rewards {rewards} and last() {collected} add up differently"
    aec.close()
    card = find_card(case.card)
    if card.scripted is None:
        return
    for agent in card.team.names:
        env = case.make(agent=agent)
        env.reset(seed=SEED)
        over = False
        mine = [action.action for action in reference.actions if action.agent == agent]
        for text in mine or [""]:  # an agent that is left out ends the episode with any text
            assert not over, f"the single-agent interface of {agent} ended early"
            _, _, over, _, _ = env.step(text)
        assert over, f"the single-agent interface of {agent} did not end with its last action"
        played = comparable(team_env(env).trajectory)
        assert played == comparable(reference), f"the single-agent interface of {agent} differs"
        env.close()


def any_text_is_legal(case: Case) -> None:
    """Hostile texts get a valid low reward or none, and the episode continues."""
    env = case.make()
    for text in HOSTILE:
        over = False
        env.reset(seed=SEED)
        while not over:
            observation, reward, over, _, info = env.step(text)
            assert 0.0 <= float(reward) <= 10.0, f"reward {reward} is outside of 0-10"
            assert info["reward_valid"] or reward == 0.0, f"a missing score became the number {reward}"
            assert observation in env.observation_space, "the observation is outside of its space"
        assert not info["outcome/success"], f"{text[:20]!r} counts as a success"
    env.close()


def comparable(trajectory: Trajectory) -> list[Any]:
    """The reproducible parts of a trajectory: everything except times."""
    return [trajectory.task.id, trajectory.seed, trajectory.outcome, *map(_action, trajectory.actions)]


def _action(record: ActionRecord) -> list[Any]:
    tool = record.tool
    ran = None if tool is None else (tool.status, tool.exit_code, tool.stdout, tool.stderr, tool.files)
    called = [(call.tool, call.arguments, call.status, call.text, call.facts) for call in record.calls]
    verdict, earned = record.verdict, (record.reward, record.reward_valid)
    return [
        record.agent,
        record.turn,
        record.messages,
        record.action,
        ran,
        called,
        verdict,
        earned,
        record.seed,
    ]


def _actions(env: gym.Env[Any, str]) -> Iterator[str]:
    """The scripted expert team's actions if there is one, otherwise ``TEXTS`` in turn."""
    card = team_env(env).card
    if card.scripted is None:
        for i in range(card.order.most_actions):
            yield TEXTS[i % len(TEXTS)]
        return
    team = Partners(card, "expert", agent=None, prompts=str(team_env(env).episode.settings["prompts"]))
    team.reset(team_env(env).episode)
    while True:
        yield team.act(team_env(env).episode)


def play(case: Case, seed: int) -> Trajectory:
    """An episode of the self-play interface, played by the scripted expert team or with ``TEXTS``."""
    env = case.make()
    env.reset(seed=seed)
    for text in _actions(env):
        _, _, over, _, _ = env.step(text)
        if over:
            break
    trajectory = team_env(env).trajectory
    env.close()
    return trajectory


def _vector_equals_sequential(case: Case, **mode: Any) -> None:
    """Compare every observation, reward, end and info of three environments, beyond the end of an episode."""
    count = 3
    steps = find_card(case.card).order.most_actions + 3
    with contextlib.ExitStack() as stack:
        made = gym.make_vec(case.env_id, num_envs=count, **mode, **case.options)
        stack.push(lambda kind, *_: _close(made, failed=kind is not None))
        singles = [stack.enter_context(contextlib.closing(case.make())) for _ in range(count)]
        _step_side_by_side(DictInfoToList(made), singles, steps)


def _close(vector: Any, failed: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vector.close(terminate=failed)  # after a failure, workers may hang in a call


def _step_side_by_side(vector: Any, singles: list[gym.Env[Any, str]], steps: int) -> None:
    count = len(singles)
    observations, infos = vector.reset(seed=SEED)
    expected = [env.reset(seed=SEED + i) for i, env in enumerate(singles)]
    _compare(observations, infos, expected)
    over = [False] * count
    for step in range(steps):
        actions = [TEXTS[(step + i) % len(TEXTS)] for i in range(count)]
        observations, rewards, terminations, truncations, infos = vector.step(actions)
        expected = []
        for i, env in enumerate(singles):
            reward: Any = 0.0
            if over[i]:  # with next-step autoreset, this step only resets
                (observation, info), over[i] = env.reset(), False
            else:
                observation, reward, over[i], _, info = env.step(actions[i])
            assert rewards[i] == reward, f"reward of environment {i}: {rewards[i]} is not {reward}"
            expected.append((observation, info))
        assert terminations.tolist() == over, f"ends differ: {terminations} and {over}"
        assert not truncations.any(), "an episode was truncated"
        _compare(observations, infos, expected)


def _compare(observations: Any, infos: Any, expected: list[tuple[Any, Any]]) -> None:
    for i, (observation, info) in enumerate(expected):
        mine = {key: value[i] for key, value in observations.items()}
        assert mine == observation, f"observation of environment {i} differs"
        assert infos[i] == info, f"info of environment {i}: {infos[i]} is not {info}"
