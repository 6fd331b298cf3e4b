"""PettingZoo's AEC interface: agents act one after another, each with its own rewards and infos."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from mappa_env.envs.spaces import Unicode, observation_space
from mappa_env.envs.team_env import METADATA, TeamEnv


def env(card: str, **options: Any) -> OrderEnforcingWrapper:
    """``pettingzoo.make("aec", id)``: a ``raw_env`` that rejects calls out of order."""
    return OrderEnforcingWrapper(raw_env(card, **options))


def own_options(options: dict[str, Any] | None) -> dict[str, Any]:
    """``options`` of a reset without the key "options", which PettingZoo's tests pass."""
    return {key: value for key, value in (options or {}).items() if key != "options"}


class raw_env(AECEnv[str, dict[str, Any], str | None]):
    """The AEC environment without a wrapper.

    ``rewards[agent]`` right after ``step`` is the reward of the action; ``last()`` returns the sum since the
    agent's last turn. If rewards are pending until the end, the closing step gives every agent the sum over
    its actions. So every reward arrives once.

    ``infos[agent]`` describes that agent's own last action; ``messages`` is empty unless it is its turn.
    """

    def __init__(self, card: str, **options: Any) -> None:
        super().__init__()
        self.team_env = TeamEnv(card, **options)
        spec = self.team_env.card
        self.metadata = {**METADATA, "name": spec.id, "is_parallelizable": False}
        self.render_mode = self.team_env.render_mode
        self.possible_agents = list(spec.team.names)
        self.agents: list[str] = []
        # One space per agent, so that each can be seeded separately.
        self.observation_spaces = {name: observation_space(spec.order) for name in self.possible_agents}
        self.action_spaces = {name: Unicode() for name in self.possible_agents}
        self.state_space = Unicode()
        self._rng: np.random.Generator | None = None

    def observation_space(self, agent: str) -> gym.Space[Any]:
        """The observation space of ``agent``; equal for all agents."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[Any]:
        """The action space of ``agent``: any text."""
        return self.action_spaces[agent]

    def observe(self, agent: str) -> dict[str, Any]:
        """What ``agent`` sees; the prompt is empty unless it is its turn."""
        return self.team_env.observation(agent)

    def state(self) -> str:
        """The whole team's view as JSON: see ``TeamEnv.state``."""
        return self.team_env.state()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """``options={"task_id": ...}`` chooses the task. Raises OptionError, UnknownTaskError."""
        if seed is not None or self._rng is None:
            self._rng, _ = seeding.np_random(seed)
        self.team_env.reset(self._rng, own_options(options))
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self.agent_selection = self._acting()
        self._inform()

    def step(self, action: str | None) -> None:
        """Execute the acting agent's text; None for a dead step."""
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        team_env = self.team_env
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        team_env.act(action)
        for name in [agent] if team_env.episode.immediate else self.agents:
            self.rewards[name], _ = team_env.reward_of(name)
        if team_env.episode.over:
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self._inform()
        if team_env.episode.over:
            self._deads_step_first()
        else:
            self.agent_selection = self._acting()

    def render(self) -> str | None:
        """The last action as text, or None; see the option ``render_mode``."""
        return self.team_env.render()

    def close(self) -> None:
        """Remove the workspace and close sandbox and coach."""
        self.team_env.close()

    def _acting(self) -> str:
        agent = self.team_env.episode.agent
        assert agent is not None  # only asked while the episode runs
        return agent

    def _inform(self) -> None:
        """Set new infos; callers such as ``turn_based_aec_to_parallel`` modify the dicts."""
        acting = self.team_env.episode.agent
        self.infos = {}
        for name in self.agents:
            record, (_, valid) = self.team_env.last_action(name), self.team_env.reward_of(name)
            self.infos[name] = self.team_env.info(record, valid, messages=name == acting)
