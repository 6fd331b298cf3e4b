"""The order of a team: a pure function from the actions so far to whoever acts next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mappa_env.order.conditions import said
from mappa_env.order.segments import Segment, segments_of
from mappa_env.order.steps import (
    DONE,
    KEY,
    Act,
    Choose,
    Parallel,
    Repeat,
    Step,
    When,
    counts,
    fewest,
    fixed,
    flat,
    longest,
)
from mappa_env.order.wording import in_words
from mappa_env.types import ActionRecord, AgentSpec, Team
from mappa_env.types.revised import revised


class Turn(NamedTuple):
    """Who acts: ``agent``. ``number`` (from 0) counts its actions; its segment may have ``left`` more.

    ``returns``: how many segments the agent has had before.
    """

    agent: AgentSpec
    number: int
    left: int
    returns: int


@dataclass(frozen=True)
class Order:
    """``steps`` for the agents of ``team``. The same actions always give the same next turn."""

    team: Team
    steps: tuple[Step, ...]

    @classmethod
    def chain(cls, team: Team) -> Order:
        """Every agent once, in the order of the team."""
        return cls(team, tuple(Act(name) for name in team.names))

    def next(self, actions: Sequence[ActionRecord]) -> Turn | None:
        """Whose turn it is after ``actions``; None: the episode is over."""
        finished, begun = _progress(actions)
        slot = self._slot(actions, finished)
        if slot is None:
            return None
        return self._turn(slot.agent, actions, begun)

    def turns(self, actions: Sequence[ActionRecord]) -> tuple[Turn, ...]:
        """The turns that can be taken after ``actions``, in order; none: the episode is over.

        In a parallel step they are the turns of all agents whose segments in it are not finished: none of
        them depends on the others. Otherwise there is one, ``next``.
        """
        finished, begun = _progress(actions)
        slot = self._slot(actions, finished)
        if slot is None:
            return ()
        return (
            self._turn(slot.agent, actions, begun),
            *(self._turn(name, actions, 0) for name in slot.beside),
        )

    def seen(self, actions: Sequence[ActionRecord]) -> tuple[ActionRecord, ...]:
        """Those of ``actions`` that whoever acts after them can know.

        All of them, its own too, but those of agents that act in parallel with it.
        """
        slot = self._slot(actions, _progress(actions)[0]) if self._parallel else None
        if slot is None or not slot.hidden:
            return tuple(actions)
        past = segments_of(actions)
        shown = (segment.actions for i, segment in enumerate(past) if i not in slot.hidden)
        return tuple(itertools.chain.from_iterable(shown))

    def offered(self, actions: Sequence[ActionRecord]) -> tuple[str, ...]:
        """To whom the agent that acts after ``actions`` can hand over; empty: it chooses nobody."""
        slot = self._slot(actions, _progress(actions)[0]) if self.managers else None
        return () if slot is None else slot.among

    def chosen_by(self, actions: Sequence[ActionRecord]) -> ActionRecord | None:
        """The action of a manager that called the agent that acts after ``actions``; None: none did."""
        slot = self._slot(actions, _progress(actions)[0]) if self.managers else None
        return None if slot is None or slot.chosen is None else segments_of(actions)[slot.chosen].actions[-1]

    def over(self, actions: Sequence[ActionRecord]) -> bool:
        """Whether the episode is over after ``actions``."""
        finished, _ = _progress(actions)
        return self._slot(actions, finished) is None

    def would_be_over(self, actions: Sequence[ActionRecord]) -> bool:
        """Whether the episode would be over after ``actions`` if the last of them ended its segment."""
        if self._fixed is not None:
            finished, begun = _progress(actions)
            return finished + bool(begun) >= len(self._fixed)
        return self.over((*actions[:-1], revised(actions[-1], last_turn=True)))

    def fresh(self, actions: Sequence[ActionRecord], agent: str | None = None) -> list[Segment]:
        """The finished segments that ``agent`` (default: the acting one) has not seen yet, in order.

        Without its own, and without those of agents that act in parallel with it. The agent's turn must be
        among ``turns``.
        """
        if not actions:
            return []
        past = segments_of(actions)
        if not past[-1].finished:
            past.pop()
        slots = self._fixed or self._slots(past)
        if len(slots) == len(past):
            return []
        slot, seen = slots[len(past)], set[int]()
        if self._once:
            return [past[i] for i in range(len(past)) if i not in slot.hidden] if slot.hidden else past
        name = agent or slot.agent
        for at, earlier in enumerate(slots[: len(past)]):
            if earlier.agent == name:
                seen |= set(range(at + 1)) - earlier.hidden
        hidden = seen | slot.hidden
        return [past[i] for i in range(len(past)) if i not in hidden and past[i].agent != name]

    @cached_property
    def is_chain(self) -> bool:
        """Whether every agent acts once, in the order of the team."""
        return self == Order.chain(self.team)

    def __str__(self) -> str:
        """Who acts when, in words."""
        return in_words(self.steps)

    @cached_property
    def managers(self) -> frozenset[str]:
        """The agents that choose who acts next."""
        return frozenset(step.manager for step in flat(self.steps) if isinstance(step, Choose))

    @cached_property
    def most_segments(self) -> dict[str, int]:
        """Agent -> the most segments that it can have in an episode."""
        return counts(self.steps)

    @cached_property
    def most_actions(self) -> int:
        """The most actions that an episode can have."""
        return longest(self.steps, {spec.name: spec.max_turns for spec in self.team})

    @cached_property
    def fewest_segments(self) -> int:
        """The fewest segments, and so the fewest actions, that an episode can have."""
        return fewest(self.steps)

    @cached_property
    def most_turns(self) -> int:
        """The most actions that one agent can have in an episode."""
        return max(count * self.team[name].max_turns for name, count in self.most_segments.items())

    @cached_property
    def _parallel(self) -> bool:
        """Whether anybody acts in parallel with another."""
        return any(isinstance(step, Parallel) for step in flat(self.steps))

    @cached_property
    def _specs(self) -> dict[str, AgentSpec]:
        return {spec.name: spec for spec in self.team}

    @cached_property
    def _once(self) -> bool:
        """Whether no agent has more than one segment."""
        return max(self.most_segments.values()) == 1

    def _turn(self, agent: str, actions: Sequence[ActionRecord], begun: int) -> Turn:
        """The turn of ``agent``, whose segment has ``begun`` actions."""
        spec = self._specs[agent]
        if len(actions) == begun or self._once:  # nobody has acted twice: what most teams need is quick
            return Turn(spec, begun, spec.max_turns - begun, 0)
        mine = [action.last_turn for action in actions if action.agent == agent]
        return Turn(spec, len(mine), spec.max_turns - begun, sum(mine))

    def _slot(self, actions: Sequence[ActionRecord], finished: int) -> _Slot | None:
        """The slot after ``finished`` segments; None: there is none."""
        slots: Sequence[_Slot] | None = self._fixed
        if slots is None:
            slots = self._slots([segment for segment in segments_of(actions) if segment.finished])
        return slots[finished] if finished < len(slots) else None

    @cached_property
    def _fixed(self) -> tuple[_Slot, ...] | None:
        """All slots, if what agents say and do changes nothing about them: then no action needs a look."""
        if not fixed(self.steps):
            return None
        done: list[Segment] = []
        found = []
        for slot in _play(self.steps, done):
            found.append(slot)
            done.append(Segment(slot.agent, ()))
        return tuple(found)

    def _slots(self, past: Sequence[Segment]) -> Sequence[_Slot]:
        """The slots of the segments in ``past``, and the next one unless the order is over."""
        done: list[Segment] = []
        found = []
        for slot in _play(self.steps, done):
            found.append(slot)
            if len(done) == len(past):
                break
            done.append(past[len(done)])
        return found


def _progress(actions: Sequence[ActionRecord]) -> tuple[int, int]:
    """The number of finished segments, and of actions in the segment that is not finished."""
    finished = begun = 0
    for action in actions:
        finished, begun = (finished + 1, 0) if action.last_turn else (finished, begun + 1)
    return finished, begun


class _Slot(NamedTuple):
    """A place for one segment.

    ``hidden``: the segments, by number, that its agent must not see in it. ``beside``: the agents that act
    after it in the same parallel step. ``among``: whom its agent may choose. ``chosen``: the number of the
    segment in which a manager chose it.
    """

    agent: str
    hidden: frozenset[int] = frozenset()
    beside: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    chosen: int | None = None


def _play(steps: tuple[Step, ...], done: list[Segment]) -> Iterator[_Slot]:
    """The slots of ``steps``; the caller appends each slot's segment to ``done`` before it goes on."""
    for step in steps:
        match step:
            case Act(agent):
                yield _Slot(agent)
            case Parallel(agents):
                first = len(done)
                for i, agent in enumerate(agents, 1):
                    yield _Slot(agent, frozenset(range(first, len(done))), beside=agents[i:])
            case Repeat(body, times, until):
                for _ in range(times):
                    before = len(done)
                    yield from _play(body, done)
                    if len(done) == before:  # nothing can be different in the next round
                        break
                    if until is not None and until.holds(done):
                        break
            case When(condition, then, otherwise):
                yield from _play(then if condition.holds(done) else otherwise, done)
            case Choose(manager, among, times):
                for _ in range(times):
                    yield _Slot(manager, among=among)
                    chosen = said(done[-1].text, KEY)
                    if chosen == DONE:
                        break
                    if chosen in among:
                        yield _Slot(chosen, chosen=len(done) - 1)
