"""The PettingZoo face: agents act one after another, each with its own rewards and infos."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from mappa_env.episode import Episode
from mappa_env.face import METADATA, Face
from mappa_env.spaces import Unicode, observation_space
from mappa_env.types import Trajectory


def env(card: str, **options: Any) -> OrderEnforcingWrapper:
    """The environment users make: ``raw_env`` that refuses calls out of order."""
    return OrderEnforcingWrapper(raw_env(card, **options))


class raw_env(AECEnv[str, dict[str, Any], str | None]):
    """``rewards[agent]`` right after ``step`` is the action's own reward; ``last()`` gives the sum since
    the agent's last turn. With the closing action every agent is paid what its last action earns through
    the episode's end beyond what it was paid at its step (nothing with process rewards).

    ``infos[agent]`` speaks of that agent's own last action; ``messages`` is empty unless it is its turn.
    """

    def __init__(self, card: str, **options: Any) -> None:
        super().__init__()
        self._face = Face(card, **options)
        spec = self._face.card
        self.metadata = {**METADATA, "name": spec.id, "is_parallelizable": False}
        self.render_mode = self._face.render_mode
        self.possible_agents = list(spec.team.names)
        self.agents: list[str] = []
        # Spaces of its own for every agent, so that they can be seeded apart.
        self.observation_spaces = {name: observation_space(spec.team) for name in self.possible_agents}
        self.action_spaces = {name: Unicode() for name in self.possible_agents}
        self._rng: np.random.Generator | None = None

    @property
    def episode(self) -> Episode:
        return self._face.episode

    @property
    def trajectory(self) -> Trajectory:
        """The full record of the running or last episode."""
        return self._face.trajectory

    def observation_space(self, agent: str) -> gym.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[Any]:
        return self.action_spaces[agent]

    def observe(self, agent: str) -> dict[str, Any]:
        return self._face.observation(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """``options={"task_id": ...}`` chooses the task. Raises UnknownTaskError."""
        if seed is not None or self._rng is None:
            self._rng, _ = seeding.np_random(seed)
        self._face.reset(self._rng, options)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self.agent_selection = self._acting()
        self._inform()

    def step(self, action: str | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        face = self._face
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        record = face.act(action)
        self.rewards[agent] = record.reward
        if face.episode.over:
            for name in self.agents:
                self.rewards[name] += face.late(name)
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self._inform()
        if face.episode.over:
            self._deads_step_first()
        else:
            self.agent_selection = self._acting()

    def render(self) -> str | None:
        return self._face.render()

    def close(self) -> None:
        self._face.close()

    def _acting(self) -> str:
        agent = self._face.episode.agent
        assert agent is not None  # only asked while the episode runs
        return agent

    def _inform(self) -> None:
        """New dictionaries every time: callers write into them (``turn_based_aec_to_parallel`` does)."""
        acting = self._face.episode.agent
        self.infos = {}
        for name in self.agents:
            earned = self._face.earned(name)
            record, valid = (earned.record, earned.valid) if earned else (None, False)
            self.infos[name] = self._face.info(record, valid, messages=name == acting)
