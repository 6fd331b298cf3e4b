"""Scripted teams: protocols for scripts and fault plans, and the team that follows both.

A script writes the actions; a plan decides, per episode and agent, which fault (if any) to commit. All random
choices derive from the episode's seed, so any episode can be repeated.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np

from mappa_env.errors import DataError, OptionError, nearest
from mappa_env.types import ActionRecord, Task, role_of

Style = Literal["full", "brief", "compact"]
"""The length of the card's prompts. Actions are explained on ``full`` ones, and bare on the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Act:
    """The action that a script writes next.

    ``turn`` counts the actions of ``agent`` from 0; ``history`` holds every earlier action that it can know
    of; ``fault`` is the fault to commit, None for an action without one.
    """

    task: Task
    agent: str
    turn: int
    history: Sequence[ActionRecord]
    style: Style
    fault: str | None
    rng: np.random.Generator

    @property
    def role(self) -> str:
        """The role of the agent."""
        return role_of(self.agent)

    @property
    def own(self) -> list[ActionRecord]:
        """The agent's own earlier actions of this segment."""
        begun: list[ActionRecord] = []
        for record in reversed(self.history):
            if record.agent != self.agent or record.last_turn:
                break
            begun.insert(0, record)
        return begun

    @property
    def returns(self) -> int:
        """How many segments the agent has had before."""
        return sum(record.agent == self.agent and record.last_turn for record in self.history)


class Script(Protocol):
    """Writes the actions of every agent of a team.

    A script of a card's own also has ``faulty``, the ``Plan`` of its faulty team.
    """

    @property
    def faults(self) -> Mapping[str, tuple[str, ...]]:
        """Role -> the names of the faults that the role can commit."""
        ...

    def act(self, act: Act) -> str:
        """Return the text of the action."""
        ...


@runtime_checkable
class Plan(Protocol):
    """Decides which agent commits which fault."""

    def choose(self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator) -> str | None:
        """Return the fault of ``agent`` in this episode, one of ``faults``, or None."""
        ...


class Expert:
    """No agent commits a fault."""

    def choose(self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator) -> str | None:
        """See ``Plan.choose``."""
        return None


@dataclass(frozen=True, slots=True)
class Single:
    """One agent commits one fault in every episode; the others act as experts."""

    agent: str
    fault: str

    def choose(self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator) -> str | None:
        """See ``Plan.choose``."""
        return self.fault if agent == self.agent else None


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A team that commits faults, some of them by habit.

    ``usual``: (topic, role) -> (fault, probability): the usual fault of that role on that topic. ``rates``:
    role -> probability of a fault drawn uniformly from all of its faults, unless it commits the usual one.
    """

    rates: Mapping[str, float]
    usual: Mapping[tuple[str, str], tuple[str, float]] = field(default_factory=dict)

    def choose(self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator) -> str | None:
        """See ``Plan.choose``."""
        role = role_of(agent)
        habit, fault, drawn = rng.random(), rng.random(), int(rng.integers(max(len(faults), 1)))
        usual = self.usual.get((task.topic, role))
        if usual is not None and habit < usual[1]:
            return usual[0]
        return faults[drawn] if faults and fault < self.rates.get(role, 0.0) else None


class ScriptedTeam:
    """A team that follows a script and a plan. ``planned`` maps agents to their fault in this episode."""

    def __init__(self, script: Script, plan: Plan, *, style: Style = "full") -> None:
        if style not in get_args(Style):
            raise OptionError(f"style={style!r} is unknown; use one of {', '.join(get_args(Style))}.")
        self._script, self._plan, self._style = script, plan, style
        self._task: Task | None = None
        self._seed = 0
        self.planned: dict[str, str | None] = {}

    def reset(self, task: Task, seed: int) -> None:
        """Start an episode on ``task``: choose the fault of ``<role>_0`` for every role of the script.

        Raises DataError for a void task.
        """
        if task.void:
            raise DataError(task.prompt)
        self._task, self._seed, self.planned = task, seed, {}
        for role in self._script.faults:
            self._choose(f"{role}_0")

    def act(self, agent: str, turn: int, history: Sequence[ActionRecord]) -> str:
        """Return the text of the next action of ``agent``, whose ``turn`` counts its actions from 0.

        ``history``: the actions that it can know of (``Episode.seen``).
        """
        assert self._task is not None, "call reset(task, seed) before act()"
        fault, rng = self._choose(agent), self._rng(agent, turn + 1)
        return self._script.act(Act(self._task, agent, turn, history, self._style, fault, rng))

    def _choose(self, agent: str) -> str | None:
        if agent not in self.planned:
            assert self._task is not None
            faults = self._script.faults.get(role_of(agent), ())
            self.planned[agent] = self._plan.choose(self._task, agent, faults, self._rng(agent, 0))
        return self.planned[agent]

    def _rng(self, agent: str, position: int) -> np.random.Generator:
        """A separate stream for every (episode, agent, turn), independent of the order of calls."""
        return np.random.default_rng([self._seed, zlib.crc32(agent.encode()), position])


def single(script: Script, agent: str, fault: str) -> Single:
    """Build a ``Single``. Raises OptionError for a role or a fault that the script does not have."""
    role = role_of(agent)
    if role not in script.faults:
        raise OptionError(
            f"The script has no role {role!r}; choose from {sorted(script.faults)}."
            + nearest(role, script.faults)
        )
    if fault not in script.faults[role]:
        raise OptionError(
            f"{role} has no fault {fault!r}; choose from {script.faults[role]}."
            + nearest(fault, script.faults[role])
        )
    return Single(agent, fault)
