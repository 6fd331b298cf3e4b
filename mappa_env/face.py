"""What every public face shares: options, seeds, observations, infos, rewards, recording."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Dict

from mappa_env.cards import Card
from mappa_env.episode import Episode
from mappa_env.errors import OptionError, nearest
from mappa_env.registration import find_card
from mappa_env.rendering import render, show
from mappa_env.spaces import Unicode, observation_space
from mappa_env.types import ActionRecord, Trajectory

RENDER_MODES = ("ansi", "human")
METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1}
_OPTIONS = tuple(name for name in inspect.signature(Episode).parameters if name != "card")
_KNOWN = (*_OPTIONS, "seat", "partners", "record", "render_mode")


@dataclasses.dataclass(slots=True)
class Earned:
    """An agent's last action with what it earned: its step reward, or its credit once the episode is over.

    ``paid``: what all its actions were handed out at their steps; ``due``: what they come to now that all
    verdicts are in. The two differ only with ``judging="deferred"``.
    """

    record: ActionRecord
    reward: float
    valid: bool
    paid: float
    due: float


class Face:
    """One episode after another on one card. Faces translate it into the interface their users know."""

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
                f"render_mode={render_mode!r} is not offered; use one of {RENDER_MODES}."
                + nearest(str(render_mode), RENDER_MODES)
            )
        for name in options:
            if name not in _OPTIONS:
                raise OptionError(
                    f"unknown option {name!r}; an environment takes {', '.join(_KNOWN)}."
                    + nearest(name, _KNOWN)
                )
        self.card: Card = find_card(card)
        self.render_mode = render_mode
        self.episode = Episode(self.card, **options)
        self.observation_space: Dict = observation_space(self.card.team)
        self.action_space = Unicode()
        self._index = {name: i for i, name in enumerate(self.card.team.names)}
        self._earned: dict[str, Earned] = {}
        self._last: ActionRecord | None = None
        self._store = None
        if record is not None:
            from mappa_env.trace.record import TraceStore  # brings in pydantic: only when asked for

            self._store = TraceStore(record)

    @property
    def trajectory(self) -> Trajectory:
        return self.episode.trajectory

    def reset(self, rng: np.random.Generator, options: Mapping[str, Any] | None) -> None:
        """Start an episode; its seed is the next draw of ``rng``. Of ``options`` only ``task_id`` counts."""
        seed = int(rng.integers(2**63))
        self.episode.reset(seed=seed, task_id=(options or {}).get("task_id"))
        self._earned, self._last = {}, None
        if self.render_mode == "human":
            show(self.episode, None)

    def act(self, action: object) -> ActionRecord:
        """Carry out the acting agent's action; record the episode when it was the closing one."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a str, found {type(action).__name__}: {action!r:.80}")
        episode = self.episode
        record = self._last = episode.act(action)
        before = self._earned.get(record.agent)
        paid = record.reward + (before.paid if before else 0.0)
        self._earned[record.agent] = Earned(record, record.reward, record.reward_valid, paid, paid)
        if episode.over:
            credit = episode.credit
            for agent, earned in self._earned.items():
                earned.record = episode.actions[earned.record.step]
                earned.reward, earned.valid = credit[earned.record.step]
                earned.due = sum(action.reward for action in episode.actions if action.agent == agent)
            if self._store is not None:
                self._store.append(episode.trajectory)
        if self.render_mode == "human":
            show(episode, record)
        return record

    def earned(self, agent: str) -> Earned | None:
        """What ``agent``'s last action earned; None before its first."""
        return self._earned.get(agent)

    def late(self, agent: str) -> float:
        """What the episode's end adds to the step rewards of ``agent``; 0.0 while it runs."""
        earned = self._earned.get(agent)
        if earned is None:
            return 0.0
        return earned.due - earned.paid + (earned.reward - earned.record.reward if earned.valid else 0.0)

    def observation(self, agent: str | None = None) -> dict[str, Any]:
        """What ``agent`` (default: the one whose turn it is) sees; no prompt when it is not its turn."""
        episode = self.episode
        acting = episode.agent
        if agent is None:
            agent = acting or (self._last.agent if self._last else self.card.team.names[0])
        if agent != acting:
            return {"prompt": "", "agent": self._index[agent], "turn": 0}
        return {"prompt": episode.prompt(), "agent": self._index[agent], "turn": episode.turn}

    def info(self, record: ActionRecord | None, valid: bool, *, messages: bool = True) -> dict[str, Any]:
        """Fresh and type-stable: ``record`` is the action that coach and tool status speak of."""
        episode, last = self.episode, self._last
        info: dict[str, Any] = {
            "messages": episode.messages() if messages else [],
            "agent": episode.agent or "",
            "acted": last.agent if last else "",
            "task_id": episode.task.id,
            "coach/status": record.verdict.status if record else "",
            "reward_valid": valid,
            "tool/status": record.tool.status if record and record.tool else "",
        }
        outcome = episode.outcome
        if outcome is not None:
            info["outcome/score"] = float(outcome.score)
            info["outcome/success"] = bool(outcome.success)
            info["outcome/status"] = outcome.status
            info["outcome/metrics"] = {key: float(value) for key, value in outcome.metrics.items()}
        return info

    def render(self) -> str | None:
        """The last action as text (``"ansi"``); printed at every step already (``"human"``)."""
        if self.render_mode == "human":
            show(self.episode, self._last)
        return render(self.episode, self._last) if self.render_mode == "ansi" else None

    def close(self) -> None:
        self.episode.close()
        if self._store is not None:
            self._store.close()
