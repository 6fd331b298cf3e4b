"""The Gymnasium interfaces: self-play (the caller acts for all agents) and single-agent (with partners)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from mappa_env.envs.partners import Partners
from mappa_env.envs.team_env import METADATA, TeamEnv
from mappa_env.errors import OptionError

Step = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]


class SelfPlayEnv(gym.Env[dict[str, Any], str]):
    """The caller acts for every agent in turn.

    ``step`` returns the *next* agent's observation and the *acting* agent's reward; ``info["agent"]`` says
    who acts next, ``info["acted"]`` who acted. A pending reward is 0.0 with ``info["reward_valid"]`` False.
    After the closing action the prompt is empty, and ``info["rewards"]`` and ``info["rewards_valid"]`` hold
    the final reward (0-10) and its validity of every action of the episode, in order.
    """

    metadata = METADATA

    def __init__(self, card: str, **options: Any) -> None:
        self.team_env = TeamEnv(card, **options)
        self.render_mode = self.team_env.render_mode
        self.observation_space = self.team_env.observation_space
        self.action_space = self.team_env.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """``options={"task_id": ...}`` chooses the task. Raises OptionError, UnknownTaskError."""
        super().reset(seed=seed)
        self.team_env.reset(self.np_random, options)
        return self.team_env.observation(), self.team_env.info(None, False)

    def step(self, action: str) -> Step:
        """Execute an action; see the class for the reward."""
        team_env = self.team_env
        record = team_env.act(action)
        info = team_env.info(record, record.reward_valid)
        return team_env.observation(), record.reward, team_env.episode.over, False, info

    def render(self) -> str | None:
        """The last action as text, or None; see the option ``render_mode``."""
        return self.team_env.render()

    def close(self) -> None:
        """Remove the workspace and close sandbox and coach."""
        self.team_env.close()


class SingleAgentEnv(SelfPlayEnv):
    """The caller acts for one agent; scripted partners act for the others.

    A step's reward is that of the agent's own action. If rewards are pending until the end, the closing step
    returns the sum over all the agent's actions.

    An order can leave the agent out of an episode: a manager never calls it, say. Then the first step takes
    any text, executes nothing and ends the episode without a valid reward.
    """

    def __init__(
        self, card: str, *, agent: str, partners: str | Mapping[str, Any] = "expert", **options: Any
    ) -> None:
        super().__init__(card, **options)
        self.agent = agent
        self._left_out = False
        self._partners = Partners(
            self.team_env.card, partners, agent=agent, prompts=options.get("prompts", "full")
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode and play the partners up to the agent's first turn."""
        super().reset(seed=seed, options=options)
        self._partners.reset(self.team_env.episode)
        self._play_partners()
        self._left_out = self.team_env.episode.over
        return self.team_env.observation(self.agent), self.team_env.info(None, False)

    def step(self, action: str) -> Step:
        """Execute an action; see the class for the reward."""
        team_env = self.team_env
        if self._left_out:
            self._left_out = False  # a further step is an error, as after any end
        else:
            team_env.act(action)
            self._play_partners()
        reward, valid = team_env.reward_of(self.agent)
        info = team_env.info(team_env.last_action(self.agent), valid)
        return team_env.observation(self.agent), reward, team_env.episode.over, False, info

    def _play_partners(self) -> None:
        """Let the partners act until it is the agent's turn or the episode is over; not on a void task."""
        episode = self.team_env.episode
        while not episode.task.void and episode.agent not in (None, self.agent):
            self.team_env.act(self._partners.act(episode))


def make_env(
    card: str,
    *,
    agent: str | None = None,
    partners: str | Mapping[str, Any] | None = None,
    **options: Any,
) -> SelfPlayEnv:
    """The entry point of ``gym.make``: single-agent if ``agent`` is given, else self-play."""
    if agent is None:
        if partners is not None:
            raise OptionError(f"partners={partners!r} needs agent=, the agent you act for.")
        return SelfPlayEnv(card, **options)
    return SingleAgentEnv(card, agent=agent, partners="expert" if partners is None else partners, **options)


make_env.metadata = METADATA  # type: ignore[attr-defined]  # gym.make reads the render modes here
