"""Scripted teams: what a script is, how faults are planned, and the team that acts out both.

A script writes the actions; a plan decides, per episode and agent, which named fault (if any) to commit.
All of it follows from the episode's seed, so that the same episode can always be played again.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from mappa_env.errors import OptionError, nearest
from mappa_env.types import ActionRecord, Task

Style = Literal["full", "compact"]


class Script(Protocol):
    """``faults``: role -> the names of the faults that the role can commit."""

    @property
    def faults(self) -> Mapping[str, tuple[str, ...]]: ...

    def act(
        self,
        task: Task,
        agent: str,
        turn: int,
        history: Sequence[ActionRecord],
        *,
        style: Style,
        fault: str | None,
        rng: np.random.Generator,
    ) -> str:
        """The text of ``agent``'s action. ``history`` holds every earlier action of the episode."""
        ...


class Plan(Protocol):
    def choose(
        self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator
    ) -> str | None: ...


class Expert:
    """Nobody errs."""

    def choose(self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Single:
    """One agent commits one fault, in every episode; the others act as the expert does."""

    agent: str
    fault: str

    def choose(self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator) -> str | None:
        return self.fault if agent == self.agent else None


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A team that errs, partly by habit.

    ``usual``: (topic, role) -> (fault, probability): what that role usually does on that topic. ``rates``:
    role -> probability of a fault drawn evenly from all of its faults, where no habit struck.
    """

    rates: Mapping[str, float]
    usual: Mapping[tuple[str, str], tuple[str, float]] = field(default_factory=dict)

    def choose(self, task: Task, agent: str, faults: Sequence[str], rng: np.random.Generator) -> str | None:
        role = agent.rsplit("_", 1)[0]
        habit, fault, drawn = rng.random(), rng.random(), int(rng.integers(max(len(faults), 1)))
        usual = self.usual.get((task.topic, role))
        if usual is not None and habit < usual[1]:
            return usual[0]
        return faults[drawn] if faults and fault < self.rates.get(role, 0.0) else None


class ScriptedTeam:
    """A whole team that plays by a script. ``planned`` says who commits which fault in this episode."""

    def __init__(self, script: Script, plan: Plan, *, style: Style = "full") -> None:
        if style not in ("full", "compact"):
            raise OptionError(f"style={style!r} is not offered; use 'full' or 'compact'.")
        self._script, self._plan, self._style = script, plan, style
        self._task: Task | None = None
        self._seed = 0
        self.planned: dict[str, str | None] = {}

    def reset(self, task: Task, seed: int) -> None:
        """Begin an episode on ``task``: choose the fault of ``<role>_0`` for every role of the script."""
        self._task, self._seed, self.planned = task, seed, {}
        for role in self._script.faults:
            self._choose(f"{role}_0")

    def act(self, agent: str, turn: int, history: Sequence[ActionRecord]) -> str:
        """The text of the next action of ``agent``, whose ``turn`` counts from 0 within its stay."""
        assert self._task is not None, "call reset(task, seed) before act()"
        return self._script.act(
            self._task,
            agent,
            turn,
            history,
            style=self._style,
            fault=self._choose(agent),
            rng=self._rng(agent, turn + 1),
        )

    def _choose(self, agent: str) -> str | None:
        if agent not in self.planned:
            assert self._task is not None
            faults = self._script.faults.get(agent.rsplit("_", 1)[0], ())
            self.planned[agent] = self._plan.choose(self._task, agent, faults, self._rng(agent, 0))
        return self.planned[agent]

    def _rng(self, agent: str, position: int) -> np.random.Generator:
        """Its own stream for every (episode, agent, turn): who acts first changes nothing."""
        return np.random.default_rng([self._seed, zlib.crc32(agent.encode()), position])


def single(script: Script, agent: str, fault: str) -> Single:
    """A checked ``Single``. Raises OptionError for a role or a fault that the script does not know."""
    role = agent.rsplit("_", 1)[0]
    if role not in script.faults:
        raise OptionError(
            f"no scripted role {role!r}; there are {sorted(script.faults)}." + nearest(role, script.faults)
        )
    if fault not in script.faults[role]:
        raise OptionError(
            f"{role} has no fault {fault!r}; there are {script.faults[role]}."
            + nearest(fault, script.faults[role])
        )
    return Single(agent, fault)
