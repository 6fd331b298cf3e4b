"""Rewards are computed once, delivered once, and the same in every interface."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import pettingzoo
import pytest
from gymnasium.vector import AutoresetMode

from mappa_env import team_env
from mappa_env.envs.partners import Partners
from mappa_env.registration import find_card

ID = "mappa/MathChat-v0"
SEED = 16
SHAPINGS = ["process", "outcome", "mixed", "backward"]
JUDGINGS = ["blocking", "deferred"]


class Played(NamedTuple):
    """A recorded episode: (agent, text) of every action, and the final rewards."""

    actions: list[tuple[str, str]]
    rewards: list[tuple[float, bool]]

    def of(self, agent: str) -> list[tuple[float, bool]]:
        return [reward for (name, _), reward in zip(self.actions, self.rewards, strict=True) if name == agent]

    def total(self, agent: str) -> float:
        return sum(reward for reward, valid in self.of(agent) if valid)


def options(shaping: str, judging: str) -> dict[str, Any]:
    return {"shaping": shaping, "judging": judging, "sandbox": "calculator"}


def reference(shaping: str) -> Played:
    env = gym.make(ID, **options(shaping, "blocking"))
    env.reset(seed=SEED)
    episode = team_env(env).episode
    team = Partners(find_card("mathchat"), "faulty", agent=None, prompts="full")
    team.reset(episode)
    while not episode.over:
        env.step(team.act(episode))
    played = Played([(a.agent, a.action) for a in episode.actions], team_env(env).rewards)
    env.close()
    return played


def check_closing_info(info: dict[str, Any], played: Played) -> None:
    assert list(zip(info["rewards"], info["rewards_valid"], strict=True)) == played.rewards
    assert {type(reward) for reward in info["rewards"]} == {float}
    assert {type(valid) for valid in info["rewards_valid"]} == {bool}


def check_steps(steps: list[tuple[float, bool]], played: Played, *, immediate: bool) -> None:
    """The rewards that the self-play interface returns, action by action."""
    if immediate:
        assert steps == played.rewards
    else:
        assert steps[:-1] == [(0.0, False)] * (len(steps) - 1)
        assert steps[-1] == played.rewards[-1]


def self_play(played: Played, chosen: dict[str, Any], *, immediate: bool) -> None:
    env = gym.make(ID, **chosen)
    _, info = env.reset(seed=SEED)
    steps = []
    for _, text in played.actions:
        assert "rewards" not in info
        _, reward, _, _, info = env.step(text)
        steps.append((float(reward), info["reward_valid"]))
    check_steps(steps, played, immediate=immediate)
    check_closing_info(info, played)
    assert team_env(env).rewards == played.rewards
    assert [(a.reward, a.reward_valid) for a in team_env(env).trajectory.actions] == played.rewards
    env.close()


def single_agent(played: Played, chosen: dict[str, Any], *, immediate: bool) -> None:
    for agent in find_card("mathchat").team.names:
        env = gym.make(ID, agent=agent, partners="faulty", **chosen)
        env.reset(seed=SEED)
        steps, info = [], {}
        for name, text in played.actions:
            if name == agent:
                _, reward, _, _, info = env.step(text)
                steps.append((float(reward), info["reward_valid"]))
        if immediate:
            assert steps == played.of(agent)
        else:
            assert steps[:-1] == [(0.0, False)] * (len(steps) - 1)
            valid = any(valid for _, valid in played.of(agent))
            assert steps[-1] == (pytest.approx(played.total(agent)), valid)
        check_closing_info(info, played)
        assert team_env(env).rewards == played.rewards
        env.close()


def vector(mode: AutoresetMode, kind: str | None) -> Callable[..., None]:
    def check(played: Played, chosen: dict[str, Any], *, immediate: bool) -> None:
        if kind is None:
            env: Any = gym.make_vec(ID, num_envs=2, autoreset_mode=mode, **chosen)
        else:
            settings = {"autoreset_mode": mode}
            env = gym.make_vec(ID, num_envs=2, vectorization_mode=kind, vector_kwargs=settings, **chosen)
        env.reset(seed=[SEED, SEED])
        steps: list[tuple[float, bool]] = []
        infos: dict[str, Any] = {}
        for _, text in played.actions:
            _, rewards, over, _, infos = env.step([text, text])
            source = infos["final_info"] if mode == AutoresetMode.SAME_STEP and over.all() else infos
            steps.append((float(rewards[1]), bool(source["reward_valid"][1])))
        assert over.all()
        check_steps(steps, played, immediate=immediate)
        for i in range(2):
            check_closing_info({key: source[key][i] for key in ("rewards", "rewards_valid")}, played)
        env.close()

    return check


def aec(played: Played, chosen: dict[str, Any], *, immediate: bool) -> None:
    env: Any = pettingzoo.make("aec", ID, **chosen)
    env.reset(seed=SEED)
    texts = [text for _, text in played.actions]
    steps, returns, delivered = [], defaultdict(float), defaultdict(float)
    for agent in env.agent_iter():
        _, reward, over, _, _ = env.last()
        returns[agent] += reward
        if over:
            check_closing_info(env.infos[agent], played)
            env.step(None)
            continue
        env.step(texts.pop(0))
        if not env.terminations[agent]:
            steps.append((env.rewards[agent], env.infos[agent]["reward_valid"]))
        for name, value in env.rewards.items():
            delivered[name] += value
    expected = {agent: played.total(agent) for agent in find_card("mathchat").team.names}
    assert returns == pytest.approx(expected)
    assert delivered == pytest.approx(expected)
    assert steps == (played.rewards[:-1] if immediate else [(0.0, False)] * len(steps))
    env.close()


def parallel(played: Played, chosen: dict[str, Any], *, immediate: bool) -> None:
    env = pettingzoo.make("parallel", ID, **chosen)
    env.reset(seed=SEED)
    returns: dict[str, float] = defaultdict(float)
    infos: dict[str, Any] = {}
    for name, text in played.actions:
        _, rewards, _, _, infos = env.step({agent: text if agent == name else None for agent in env.agents})
        for agent, reward in rewards.items():
            returns[agent] += reward
    assert returns == pytest.approx(
        {agent: played.total(agent) for agent in find_card("mathchat").team.names}
    )
    for info in infos.values():
        check_closing_info(info, played)
    env.close()


INTERFACES: dict[str, Callable[..., None]] = {
    "self-play": self_play,
    "single-agent": single_agent,
    "threads-next-step": vector(AutoresetMode.NEXT_STEP, None),
    "threads-same-step": vector(AutoresetMode.SAME_STEP, None),
    "threads-disabled": vector(AutoresetMode.DISABLED, None),
    "sync-same-step": vector(AutoresetMode.SAME_STEP, "sync"),
    "aec": aec,
    "parallel": parallel,
}


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("judging", JUDGINGS)
@pytest.mark.parametrize("shaping", SHAPINGS)
def test_every_interface_delivers_the_same_rewards_once(shaping: str, judging: str, interface: str) -> None:
    played = reference(shaping)
    immediate = shaping == "process" and judging == "blocking"
    INTERFACES[interface](played, options(shaping, judging), immediate=immediate)


def test_the_rewards_of_the_reference_tell_shapings_and_agents_apart() -> None:
    """Otherwise the test above could not detect a reward for the wrong action."""
    found = {shaping: reference(shaping).rewards for shaping in SHAPINGS}
    assert len({tuple(rewards) for rewards in found.values()}) == len(SHAPINGS)
    assert len(set(found["process"])) > 1
