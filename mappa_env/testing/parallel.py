"""The suite that compares PettingZoo's parallel interface with self-play."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import Any

from mappa_env import team_env
from mappa_env.errors import EpisodeError
from mappa_env.testing.conformance import SEED, Case, comparable, play
from mappa_env.types import ActionRecord, Trajectory


def parallel_agrees(case: Case) -> None:
    """The parallel interface shows every agent the same as self-play, and delivers the same rewards once."""
    reference = play(case, SEED)
    with contextlib.closing(case.parallel()) as env:
        compare_parallel(env, reference, SEED)


def compare_parallel(env: Any, reference: Trajectory, seed: int) -> None:
    """Repeat the episode of ``reference``, which began with ``seed``, in the parallel environment ``env``."""
    queues: dict[str, list[ActionRecord]] = defaultdict(list)
    for action in reference.actions:
        queues[action.agent].append(action)
    due = {
        name: sum(action.reward for action in queues[name] if action.reward_valid)
        for name in env.possible_agents
    }
    delivered, infos = dict.fromkeys(env.possible_agents, 0.0), env.reset(seed=seed)[1]
    while env.agents:
        live = list(env.agents)
        texts: dict[str, str | None] = dict.fromkeys(live)
        for name in live:
            if infos[name]["active"]:
                assert queues[name], f"{name} acts more often than in self-play"
                action = queues[name].pop(0)
                assert infos[name]["messages"] == list(action.messages), f"{name} sees another prompt"
                texts[name] = action.action
        _refuses(env, texts)
        _, rewards, over, truncated, infos = env.step(texts)
        assert set(rewards) == set(over) == set(truncated) == set(infos) == set(live), "an agent is left out"
        assert not any(truncated.values()), "an episode was truncated"
        for name, reward in rewards.items():
            assert infos[name]["reward_valid"] or reward == 0.0, f"{name} has the reward {reward} without one"
            delivered[name] += reward
    assert comparable(team_env(env).trajectory) == comparable(reference), "self-play and parallel differ"
    assert delivered == due, f"the rewards {delivered} are not those of the actions, {due}"
    for info in infos.values():
        rewards_of = list(zip(info["rewards"], info["rewards_valid"], strict=True))
        assert rewards_of == [(action.reward, action.reward_valid) for action in reference.actions], (
            "the closing infos hold other rewards"
        )


def _refuses(env: Any, texts: dict[str, str | None]) -> None:
    """A step with an action too many or too few raises, and changes nothing."""
    before = len(team_env(env).episode.actions)
    for name, text in texts.items():
        with contextlib.suppress(EpisodeError):
            env.step(texts | {name: "out of turn" if text is None else None})
            raise AssertionError(f"a step is accepted in which {name} acts wrongly")
    assert len(team_env(env).episode.actions) == before, "a refused step executed actions"
