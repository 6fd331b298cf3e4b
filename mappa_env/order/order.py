"""The order of a team: a pure function from the actions so far to whoever acts next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    longest,
)
from mappa_env.types import ActionRecord, AgentSpec, Team


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
        spec = self._specs[slot.agent]
        if len(actions) == begun or self._once:  # nobody has acted twice: what most teams need is quick
            return Turn(spec, begun, spec.max_turns - begun, 0)
        mine = [action.last_turn for action in actions if action.agent == slot.agent]
        return Turn(spec, len(mine), spec.max_turns - begun, sum(mine))

    def over(self, actions: Sequence[ActionRecord]) -> bool:
        """Whether the episode is over after ``actions``."""
        finished, _ = _progress(actions)
        return self._slot(actions, finished) is None

    def would_be_over(self, actions: Sequence[ActionRecord]) -> bool:
        """Whether the episode would be over after ``actions`` if the last of them ended its segment."""
        if self._fixed is not None:
            finished, begun = _progress(actions)
            return finished + bool(begun) >= len(self._fixed)
        return self.over((*actions[:-1], replace(actions[-1], last_turn=True)))

    def fresh(self, actions: Sequence[ActionRecord]) -> list[Segment]:
        """The finished segments that the acting agent has not seen yet, in order.

        Without its own, and without those of agents that act in parallel with it.
        """
        past = [segment for segment in segments_of(actions) if segment.finished]
        slots = self._fixed or self._slots(past)
        if len(slots) == len(past):
            return []
        slot, seen = slots[len(past)], set[int]()
        if self._once:
            return [segment for i, segment in enumerate(past) if i not in slot.hidden]
        for at, earlier in enumerate(slots[: len(past)]):
            if earlier.agent == slot.agent:
                seen |= set(range(at + 1)) - earlier.hidden
        hidden = seen | slot.hidden
        return [past[i] for i in range(len(past)) if i not in hidden and past[i].agent != slot.agent]

    @property
    def is_chain(self) -> bool:
        """Whether every agent acts once, in the order of the team."""
        return self == Order.chain(self.team)

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
    def _specs(self) -> dict[str, AgentSpec]:
        return {spec.name: spec for spec in self.team}

    @cached_property
    def _once(self) -> bool:
        """Whether no agent has more than one segment."""
        return max(self.most_segments.values()) == 1

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
    """A place for one segment; ``hidden``: the segments, by number, that its agent must not see in it."""

    agent: str
    hidden: frozenset[int] = frozenset()


def _play(steps: tuple[Step, ...], done: list[Segment]) -> Iterator[_Slot]:
    """The slots of ``steps``; the caller appends each slot's segment to ``done`` before it goes on."""
    for step in steps:
        match step:
            case Act(agent):
                yield _Slot(agent)
            case Parallel(agents):
                first = len(done)
                for agent in agents:
                    yield _Slot(agent, frozenset(range(first, len(done))))
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
                    yield _Slot(manager)
                    chosen = said(done[-1], KEY)
                    if chosen == DONE:
                        break
                    if chosen in among:
                        yield _Slot(chosen)
