"""The environment behind every interface: options, seeds, observations, infos, rewards, recording."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict
from gymnasium.vector import VectorEnv

from mappa_env.cards import Card
from mappa_env.coach import Coach
from mappa_env.envs.rendering import render, show
from mappa_env.envs.spaces import Unicode, observation_space
from mappa_env.episode.episode import Episode
from mappa_env.episode.execution import Timer
from mappa_env.episode.options import OPTIONS
from mappa_env.errors import OptionError, nearest
from mappa_env.order import Turn
from mappa_env.registration import find_card
from mappa_env.types import ActionRecord, Trajectory, Verdict

RENDER_MODES = ("ansi", "human")
METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1}
_GYM_ONLY = ("agent", "partners")
_KNOWN = (*OPTIONS, *_GYM_ONLY, "record", "render_mode")
_RENAMED = {"seat": "agent"}


class TeamEnv:
    """Runs one episode after another on one card. The Gymnasium and PettingZoo interfaces wrap it."""

    def __init__(
        self,
        card: str,
        *,
        record: str | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        """``card``: the name of a shipped card, or a card folder. ``options``: those of ``Episode``."""
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise OptionError(
                f"render_mode={render_mode!r} must be one of {RENDER_MODES}."
                + nearest(str(render_mode), RENDER_MODES)
            )
        for name in options:
            _check_option(name)
        self.card: Card = find_card(card)
        self.render_mode = render_mode
        self.episode = Episode(self.card, **options)
        self.observation_space: Dict = observation_space(self.card.order)
        self.action_space = Unicode()
        self._index = {name: i for i, name in enumerate(self.card.team.names)}
        self._store = None
        if record is not None:
            from mappa_env.trace import TraceStore  # lazy: imports pydantic

            self._store = TraceStore(record, card=self.card)

    @property
    def trajectory(self) -> Trajectory:
        """The full record of the running or last episode."""
        return self.episode.trajectory

    @property
    def task_ids(self) -> Sequence[str]:
        """The ids of the task set, in order."""
        return self.episode.tasks.ids

    @cached_property
    def families(self) -> dict[str, list[str]]:
        """Task family -> ids, in the task set's order. Builds every task once, to read its metric."""
        found: dict[str, list[str]] = {}
        for task_id in self.task_ids:
            found.setdefault(self.episode.tasks.get(task_id).family, []).append(task_id)
        return found

    @property
    def scripted_team(self) -> str | None:
        """Name of the card's scripted team, for ``mappa_env.scripted.make_team``; None if it has none."""
        return self.card.scripted

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The coach's verdict on every action so far."""
        return tuple(action.verdict for action in self.episode.actions)

    @property
    def rewards(self) -> list[tuple[float, bool]]:
        """(reward in 0-10, valid) of every action, in order. Raises EpisodeError while the episode runs."""
        return self.episode.rewards

    @property
    def answer(self) -> str | None:
        """The final answer of a finished episode; None if the environment has no discrete answers."""
        return self.episode.answer

    @property
    def coach(self) -> Coach:
        """The coach, for further questions."""
        return self.episode.coach

    @property
    def timer(self) -> Timer:
        """``timer("sandbox" | "coach")`` is the context manager around that work; set it to measure."""
        return self.episode.timer

    @timer.setter
    def timer(self, timer: Timer) -> None:
        self.episode.timer = timer

    def reset(self, rng: np.random.Generator, options: Mapping[str, Any] | None) -> None:
        """Start an episode; its seed is the next draw of ``rng``. ``options``: ``{"task_id": ...}`` or none.

        Raises OptionError for any other option, UnknownTaskError for an unknown task id.
        """
        for name in options or {}:
            if name != "task_id":
                raise OptionError(
                    f"unknown reset option {name!r}; the only one is 'task_id'."
                    + nearest(str(name), ["task_id"])
                )
        seed = int(rng.integers(2**63))
        self.episode.reset(seed=seed, task_id=(options or {}).get("task_id"))
        if self.render_mode == "human":
            show(self.episode, None)

    def act(self, action: object) -> ActionRecord:
        """Execute the acting agent's action; record the episode after the closing one."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, found {type(action).__name__}: {action!r:.80}")
        episode = self.episode
        record = episode.act(action)
        if episode.over and self._store is not None:
            self._store.append(episode.trajectory)
        if self.render_mode == "human":
            show(episode, record)
        return record

    def last_action(self, agent: str) -> ActionRecord | None:
        """The latest action of ``agent``; None before its first."""
        return next((a for a in reversed(self.episode.actions) if a.agent == agent), None)

    def reward_of(self, agent: str) -> tuple[float, bool]:
        """(reward, valid) that ``agent`` has received since it began its latest action.

        If rewards are immediate, this is the reward of the latest action. If they are pending until the end,
        it is (0.0, False), and once the episode is over the sum of the agent's valid rewards.
        """
        if self.episode.immediate:
            last = self.last_action(agent)
            return (last.reward, last.reward_valid) if last else (0.0, False)
        rewards = [a.reward for a in self.episode.actions if a.agent == agent and a.reward_valid]
        return sum(rewards, 0.0), bool(rewards)

    def observation(self, agent: str | None = None) -> dict[str, Any]:
        """What ``agent`` (default: the acting one) sees; the prompt is empty unless it is its turn."""
        episode = self.episode
        acting = episode.agent
        if agent is None:
            agent = acting or (self._last.agent if self._last else self.card.team.names[0])
        if agent != acting:
            return self.nothing_for(agent)
        return {"prompt": episode.prompt(), "agent": self._index[agent], "turn": episode.turn}

    def nothing_for(self, agent: str) -> dict[str, Any]:
        """What ``agent`` sees where it is not its turn."""
        return {"prompt": "", "agent": self._index[agent], "turn": 0}

    def observation_at(self, turn: Turn) -> dict[str, Any]:
        """What the agent of ``turn`` sees, one of ``Episode.turns``."""
        name = turn.agent.name
        return {"prompt": self.episode.prompt(name), "agent": self._index[name], "turn": turn.number}

    def state(self) -> str:
        """The whole team's view, as JSON: the task's prompt and every action so far with what its code did.

        For a centralised critic. It holds no hidden truth and no score.
        """
        episode = self.episode
        actions = [
            {
                "agent": action.agent,
                "turn": action.turn,
                "action": action.action,
                "status": action.tool.status if action.tool else "",
                "output": action.tool.stdout if action.tool else "",
            }
            for action in episode.actions
        ]
        agents = [turn.agent.name for turn in episode.turns]
        return json.dumps(
            {"task": episode.task.prompt, "actions": actions, "next": agents}, ensure_ascii=False
        )

    def info(self, record: ActionRecord | None, valid: bool, *, messages: bool = True) -> dict[str, Any]:
        """A new info dict with stable types; ``record``: the action of the coach and tool status."""
        episode, task, last = self.episode, self.episode.task, self._last
        info: dict[str, Any] = {
            "messages": episode.messages() if messages else [],
            "agent": episode.agent or "",
            "acted": last.agent if last else "",
            "task_id": task.id,
            "task/status": "unavailable" if task.void else "ok",
            "coach/status": record.verdict.status if record else "",
            "reward_valid": valid,
            "tool/status": _tool_status(record),
        }
        outcome = episode.outcome
        if outcome is not None:
            info["outcome/score"] = float(outcome.score)
            info["outcome/success"] = bool(outcome.success)
            info["outcome/status"] = outcome.status
            info["outcome/metrics"] = {key: float(value) for key, value in outcome.metrics.items()}
            rewards = episode.rewards
            info["rewards"] = [float(reward) for reward, _ in rewards]
            info["rewards_valid"] = [bool(valid) for _, valid in rewards]
        return info

    @property
    def _last(self) -> ActionRecord | None:
        return self.episode.last

    def render(self, count: int = 1) -> str | None:
        """Return the last ``count`` actions as text (``"ansi"``) or print them (``"human"``).

        Before the first action, the prompt.
        """
        records: tuple[ActionRecord | None, ...] = self.episode.actions[-count:] or (None,)
        if self.render_mode == "human":
            for record in records:
                show(self.episode, record)
        if self.render_mode != "ansi":
            return None
        return "\n\n".join(render(self.episode, record) for record in records)

    def __deepcopy__(self, memo: dict[int, Any]) -> TeamEnv:
        """A fork of the running episode (``Episode.fork``). It records nothing."""
        twin = copy.copy(self)
        twin.episode, twin._store = self.episode.fork(), None
        return twin

    def close(self) -> None:
        """Remove the workspace; close sandbox, coach, tools and trace file."""
        self.episode.close()
        if self._store is not None:
            self._store.close()


def _tool_status(record: ActionRecord | None) -> str:
    """The status of the action's code, else of its last call; empty if it has neither."""
    if record is None or record.tool is not None:
        return record.tool.status if record and record.tool else ""
    return record.calls[-1].status if record.calls else ""


def _check_option(name: str) -> None:
    if name in OPTIONS:
        return
    if name in _RENAMED:
        raise OptionError(f"the option {name!r} is now {_RENAMED[name]!r}: write {_RENAMED[name]}=.")
    if name in _GYM_ONLY:
        raise OptionError(f"the option {name!r} is for gym.make and gym.make_vec only; leave it out here.")
    raise OptionError(
        f"unknown option {name!r}; an environment takes {', '.join(_KNOWN)}." + nearest(name, _KNOWN)
    )


def of(env: Any) -> TeamEnv:
    """See ``mappa_env.team_env``."""
    found = getattr(getattr(env, "unwrapped", env), "team_env", None)
    if isinstance(found, TeamEnv):
        return found
    if isinstance(env, VectorEnv):
        raise OptionError(
            f"{type(env).__name__} is a vector environment: pass one of its environments, "
            "team_env(env.unwrapped.envs[i]), which threaded and synchronous vector environments have."
        )
    raise OptionError(
        f"{_inner(env)} is not an environment of mappa_env; pass what gym.make('mappa/...') or "
        "pettingzoo.make(...) returns, with or without wrappers."
    )


def _inner(env: object) -> str:
    """The class name of the environment inside Gymnasium's wrappers."""
    return type(env.unwrapped if isinstance(env, gym.Env) else env).__name__
