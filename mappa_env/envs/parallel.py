"""PettingZoo's parallel interface: the agents of a parallel step act in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from mappa_env.envs.aec import own_options
from mappa_env.envs.spaces import TurnText, Unicode, observation_space
from mappa_env.envs.team_env import METADATA, TeamEnv
from mappa_env.errors import EpisodeError, nearest
from mappa_env.order import Turn
from mappa_env.types import ActionRecord

Stepped = tuple[
    dict[str, dict[str, Any]], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]
"""Observations, rewards, terminations, truncations and infos, by agent."""


class ParallelTeamEnv(ParallelEnv[str, dict[str, Any], str | None]):
    """``pettingzoo.make("parallel", id)``.

    In a ``parallel`` step of the card's order, all of its agents act in one ``step``; in any other step one
    agent acts. ``infos[agent]["active"]`` says whether the agent acts next. ``step`` takes the text of every
    agent that does, and None or nothing for the others. All agents live until the episode is over.

    The texts are executed in the order of the card, so the same texts give the same trajectory as in the
    other interfaces. If an agent's segment continues after a tool call, the texts of the agents after it wait
    until the segment ends, and these agents are not asked again before.

    ``rewards[agent]`` is the reward of the action that the agent has had executed in this step, 0.0 without
    one. If rewards are pending until the end, the closing step gives every agent the sum over its actions.
    ``infos[agent]`` describes the same action. The environment itself never truncates an episode.
    """

    def __init__(self, card: str, **options: Any) -> None:
        self.team_env = TeamEnv(card, **options)
        spec = self.team_env.card
        self.metadata = {**METADATA, "name": spec.id}
        self.render_mode = self.team_env.render_mode
        self.possible_agents = list(spec.team.names)
        self.agents: list[str] = []
        self.observation_spaces = {name: observation_space(spec.order) for name in self.possible_agents}
        self.action_spaces = {name: TurnText() for name in self.possible_agents}
        self.state_space = Unicode()
        self._active: dict[str, Turn] = {}
        self._waiting: dict[str, str] = {}
        self._count = 0
        self._rng: np.random.Generator | None = None

    def observation_space(self, agent: str) -> gym.Space[Any]:
        """The observation space of ``agent``; equal for all agents."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[Any]:
        """The action space of ``agent``: any text, and None where it is not its turn."""
        return self.action_spaces[agent]

    def state(self) -> str:
        """The whole team's view as JSON: see ``TeamEnv.state``."""
        return self.team_env.state()

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """``options={"task_id": ...}`` chooses the task. Raises OptionError, UnknownTaskError."""
        if seed is not None or self._rng is None:
            self._rng, _ = seeding.np_random(seed)
        self.team_env.reset(self._rng, own_options(options))
        self.agents, self._waiting, self._count = list(self.possible_agents), {}, 0
        return self._observe(self.agents, {})

    def step(self, actions: Mapping[str, str | None]) -> Stepped:
        """Execute the texts of all agents that act; see the class.

        Raises EpisodeError, before any text is executed, if one is missing or comes from an agent that does
        not act, or if the episode is over; TypeError for an action that is no text.
        """
        texts = self._texts(actions)
        team_env, agents = self.team_env, self.agents
        self._waiting |= texts
        acted: dict[str, ActionRecord] = {}
        while team_env.episode.agent in self._waiting:
            record = team_env.act(self._waiting.pop(team_env.episode.agent))
            acted[record.agent] = record
        self._count, over = len(acted), team_env.episode.over
        if over:
            self.agents = []
        observations, infos = self._observe(agents, acted)
        rewards = {name: self._reward(name, acted)[0] for name in agents}
        return observations, rewards, dict.fromkeys(agents, over), dict.fromkeys(agents, False), infos

    def render(self) -> str | None:
        """The actions of the last step as text, or None; see the option ``render_mode``."""
        return self.team_env.render(self._count)

    def close(self) -> None:
        """Remove the workspace and close sandbox and coach."""
        self.team_env.close()

    def _texts(self, actions: Mapping[str, str | None]) -> dict[str, str]:
        """The texts of the agents that act, checked."""
        if not self.agents:
            raise EpisodeError("the episode is over (or not started): call reset() first.")
        acting = f"this step is {', '.join(self._active)}'s"
        texts = {}
        for name, action in actions.items():
            if name not in self.possible_agents:
                raise EpisodeError(
                    f"{name!r} is not in the team ({', '.join(self.possible_agents)}): {acting}."
                    + nearest(str(name), self.possible_agents)
                )
            if action is None:
                continue
            if not isinstance(action, str):
                raise TypeError(
                    f"the action of {name} is a str, found {type(action).__name__}: {action!r:.80}"
                )
            if name not in self._active:
                raise EpisodeError(
                    f"{name} does not act now, but has the action {action!r:.80}: {acting}. Pass None for an "
                    "agent whose infos have active False, or leave it out."
                )
            texts[name] = action
        for name in self._active:
            if name not in texts:
                raise EpisodeError(f"{name} acts now, but has no action: {acting}. Pass a text for each.")
        return texts

    def _observe(
        self, agents: list[str], acted: Mapping[str, ActionRecord]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """Observations and infos of ``agents`` now, after the actions in ``acted``."""
        team_env = self.team_env
        turns = (turn for turn in team_env.episode.turns if turn.agent.name not in self._waiting)
        self._active = {turn.agent.name: turn for turn in turns}
        observations, infos = {}, {}
        for name in agents:
            turn = self._active.get(name)
            self.action_spaces[name].acts = turn is not None
            observations[name] = team_env.observation_at(turn) if turn else team_env.nothing_for(name)
            info = team_env.info(acted.get(name), self._reward(name, acted)[1], messages=False)
            del info["agent"], info["acted"]  # of a step with one action
            messages = team_env.episode.messages(name) if turn else []
            infos[name] = {**info, "messages": messages, "active": turn is not None}
        return observations, infos

    def _reward(self, agent: str, acted: Mapping[str, ActionRecord]) -> tuple[float, bool]:
        """(reward, valid) that ``agent`` gets in the step of the actions in ``acted``."""
        if self.team_env.episode.immediate and agent not in acted:
            return 0.0, False
        return self.team_env.reward_of(agent)
