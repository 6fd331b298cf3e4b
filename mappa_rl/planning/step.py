"""The predicted wall time of one training step, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, sqrt
from statistics import NormalDist

from mappa_rl.planning.flow import Flow, flow
from mappa_rl.planning.setup import GENERATION, LEARNING, SYNC, Setup
from mappa_rl.planning.stage import Stage

TIE = 0.05
"""Stages whose seconds differ by at most this fraction tie: the model does not tell which is the larger."""


@dataclass(frozen=True, slots=True)
class Step:
    """``parts``: seconds by stage, learning and weight sync among them; they add up to ``seconds``.

    ``busy``: stage -> the fraction of what it could serve that the step asks of it.
    """

    seconds: float
    parts: dict[str, float]
    busy: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """The stage that takes most of the step."""
        return max(self.parts, key=self.parts.__getitem__)

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        """That stage, and those that take nearly as much, the largest first."""
        most = (1 - TIE) * self.parts[self.bottleneck]
        near = [name for name, seconds in self.parts.items() if seconds >= most]
        return tuple(sorted(near, key=self.parts.__getitem__, reverse=True))


def predict(setup: Setup) -> Step:
    """The step in the steady state: without the first steps of a run, evaluations and checkpoints.

    No step is faster than it would be if the stages that only queue made nobody wait, so the slower of the
    two counts: where they hold others back, the estimate of how many meet at a growing stage is too low.
    """
    eased = tuple(stage if stage.growth else stage.with_more(inf) for stage in setup.stages)
    parts = max(_parts(setup), _parts(replace(setup, stages=eased)), key=lambda found: sum(found.values()))
    seconds = sum(parts.values())
    actions = setup.episodes * setup.actions
    busy = {stage.name: actions / (seconds * stage.most) if seconds else 0.0 for stage in setup.stages}
    busy[LEARNING] = setup.learn_s / seconds if seconds else 0.0
    return Step(seconds, parts, busy)


def _parts(setup: Setup) -> dict[str, float]:
    if setup.staleness:
        return _overlapped(setup)
    return {**_played(replace(setup, learn_s=0.0, sync_s=0.0)), LEARNING: setup.learn_s, SYNC: setup.sync_s}


@lru_cache(maxsize=1024)
def _played(setup: Setup) -> Mapping[str, float]:
    """On policy, what the episodes take: the same for all placements that only learn in another way."""
    return _in_groups(setup) if setup.lockstep_groups else _at_once(setup)


def expected_maximum(count: float) -> float:
    """Of ``count`` draws from a standard normal distribution (G. Blom, 1958)."""
    return -NormalDist().inv_cdf(0.625 / (count + 0.25)) if count > 1 else 0.0


def _at_once(setup: Setup) -> dict[str, float]:
    """All episodes of a step are under way, and the last one ends it.

    What an episode takes is the sum of its actions, so the slowest of many exceeds the mean by a number of
    standard deviations. Where actions queue, the queue evens that out: the larger of both counts most. A
    stage that serves all it can is idle until the first episode arrives, and others follow after the last.
    """
    found = flow(setup.stages, setup.episodes)
    queued, tail = setup.actions * sum(found.queue.values()), _tail(setup, found)
    excess = sqrt(queued**2 + sum(tail.values()) ** 2) - queued
    scale = excess / sum(tail.values()) if excess else 0.0
    parts = {
        name: setup.actions * (found.service[name] + found.queue[name]) + scale * tail[name]
        for name in found.service
    }
    for stage in setup.stages:
        working = setup.episodes * setup.actions / stage.most
        around = _around(setup, stage)
        if working + sum(around.values()) > sum(parts.values()):
            parts = {**around, stage.name: working}
    return parts


def _around(setup: Setup, stage: Stage) -> dict[str, float]:
    """By other stages, seconds of an episode before its first visit to ``stage`` and after its last.

    Visits are spread evenly over the episode's actions. What an episode waits for once, deferred verdicts,
    it waits for at its end, though they are at work from its first action on.
    """
    outside = 1 / setup.actions if _ends(setup, stage) else 2 / (setup.actions * stage.visits + 1)
    return {
        other.name: setup.actions * other.visits * other.seconds * (1.0 if _ends(setup, other) else outside)
        for other in setup.stages
        if other is not stage
    }


def _ends(setup: Setup, stage: Stage) -> bool:
    """Whether an episode visits the stage once."""
    return setup.actions * stage.visits <= 1


def _tail(setup: Setup, found: Flow) -> dict[str, float]:
    """By stage, the seconds by which the slowest episode exceeds the mean; they add up to all of them."""
    variances = {
        stage.name: setup.actions
        * stage.visits
        * (stage.spread * found.service[stage.name] / stage.visits) ** 2
        for stage in setup.stages
    }
    total = sum(variances.values())
    most = expected_maximum(setup.episodes) * sqrt(total)
    return {name: most * each / total if total else 0.0 for name, each in variances.items()}


def _overlapped(setup: Setup) -> dict[str, float]:
    """Episodes of ``1 + staleness`` steps are under way, played, waiting to be learned from, or learned from.

    The learner is one more stage that an episode passes, once; a step lasts at least as long as the learner.
    """
    learner = setup.learn_s + setup.sync_s
    waits = Stage(LEARNING, learner, visits=1 / setup.actions)
    found = flow([*setup.stages, waits], setup.episodes * (1 + setup.staleness))
    period = setup.episodes * setup.actions / found.rate
    if learner >= period:
        return {
            **dict.fromkeys((stage.name for stage in setup.stages), 0.0),
            LEARNING: setup.learn_s,
            SYNC: setup.sync_s,
        }
    seconds = {name: found.service[name] + found.queue[name] for name in found.service}
    own = seconds.pop(LEARNING)
    total = sum(seconds.values()) + own
    parts = {name: period * each / total for name, each in seconds.items()}
    learned = period * own / total
    share = setup.sync_s / learner if learner else 0.0
    return {**parts, LEARNING: learned * (1 - share), SYNC: learned * share}


def _in_groups(setup: Setup) -> dict[str, float]:
    """Lockstep groups take turns to generate; each then runs its actions, and waits for its slowest one."""
    groups = setup.lockstep_groups
    size = setup.episodes / groups
    slowest = expected_maximum(size)

    def together(stage: Stage, count: float) -> float:
        """Seconds until ``count`` actions that came at once have passed a stage."""
        last = stage.seconds * (1 + stage.spread * slowest) + stage.growth * (count - 1)
        return max(last, count / stage.capacity + stage.seconds - 1 / stage.capacity)

    ends = [stage for stage in setup.stages if stage.visits < 1]
    inside = [stage for stage in setup.stages if stage.visits >= 1 and stage.name != GENERATION]
    generation = together(next(s for s in setup.stages if s.name == GENERATION), size)
    passes = {stage.name: stage.visits * together(stage, size) for stage in inside}
    acting = sum(passes.values())
    shared = max((stage.visits * setup.episodes / stage.capacity for stage in inside), default=0.0)
    period = max(groups * generation, generation + acting)
    rounds = setup.actions
    total = (groups - 1) * generation + (rounds - 1) * period + generation + acting
    total = max(total, rounds * shared + generation)
    generating = min((groups - 1) * generation + rounds * generation, total)
    if period == groups * generation:
        generating = total - acting
    rest = total - generating
    parts = {GENERATION: generating}
    parts |= {name: rest * each / acting if acting else 0.0 for name, each in passes.items()}
    for stage in ends:
        backlog = max(setup.episodes * setup.actions / stage.capacity - total, 0.0)
        parts[stage.name] = stage.seconds * (1 + stage.spread * slowest) + backlog
    return parts
