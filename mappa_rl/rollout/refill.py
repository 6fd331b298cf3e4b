"""Dynamic sampling (DAPO, arXiv 2503.14476): groups that teach nothing are replaced by newly played ones.

A group, the episodes of one task, teaches nothing if ``algo.drop_zero_variance_groups`` leaves no action of
it to learn from. Another task is played in its place, up to ``rollout.refill_rounds`` times; the last group
stays, as it is. What was replaced is in no batch, but counts in the metrics of episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mappa_rl.algos.filters import choose
from mappa_rl.config import Config
from mappa_rl.learner.samples import training_samples
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.jobs import jobs_of
from mappa_rl.rollout.types import Collected, Job, RolloutWorker
from mappa_rl.types import Rollout


@dataclass(frozen=True, slots=True)
class Refill:
    """``jobs_of(step, round)`` are a step's jobs in the place of those with the same index, rounds from 1.

    ``teaches``: whether a group of this many (``group_size``) episodes leaves a policy anything to learn.
    """

    rounds: int
    group_size: int
    jobs_of: Callable[[int, int], Sequence[Job]]
    teaches: Callable[[Sequence[Rollout]], bool]

    def jobs(self, step: int, round_: int, group: int) -> Sequence[Job]:
        """The jobs of one group of a step."""
        return self.jobs_of(step, round_)[group * self.group_size : (group + 1) * self.group_size]

    def fill(self, step: int, first: Collected, play: Callable[[Sequence[Job]], Collected]) -> Collected:
        """Replace groups of ``first``, the step's own episodes, by what ``play`` makes of other jobs."""
        groups = _groups(first, self.group_size)
        played, replaced, rounds = [first], list[Collected](), 0
        while rounds < self.rounds:
            idle = [i for i, group in enumerate(groups) if not self.teaches(group.rollouts)]
            if not idle:
                break
            rounds += 1
            more = play([job for i in idle for job in self.jobs(step, rounds, i)])
            played.append(more)
            for i, group in zip(idle, _groups(more, self.group_size), strict=True):
                replaced.append(groups[i])
                groups[i] = group
        return refilled(groups, replaced, played, rounds)


def refill_of(config: Config, policies: PolicyMap, worker: RolloutWorker) -> Refill | None:
    """The refill that ``config.rollout`` asks for; None: none."""
    rollout, algo = config.rollout, config.algo
    if not rollout.refill_rounds:
        return None

    def teaches(rollouts: Sequence[Rollout]) -> bool:
        samples = training_samples(policies, rollouts)
        before = any(span.valid for own in samples.values() for sample in own for span in sample.spans)
        left = (choose(own, algo, rollout)[0] for own in samples.values())
        # a group whose actions are all masked failed for another reason, which more episodes do not remove
        return not before or any(span.valid for own in left for sample in own for span in sample.spans)

    return Refill(
        rollout.refill_rounds,
        rollout.group_size,
        lambda step, round_: jobs_of(config, worker, step, round_),
        teaches,
    )


def refilled(
    groups: Sequence[Collected], replaced: Sequence[Collected], played: Sequence[Collected], rounds: int
) -> Collected:
    """The episodes of ``groups``, with ``replaced`` beside them, and the costs of all that was ``played``.

    Adds the metrics ``refill_rounds`` and ``refilled_groups``: the number of groups that were replaced.
    """
    kept, rest = _joined(groups), _joined(replaced)
    names = dict.fromkeys(name for each in played for name in each.stats)
    stats = {name: sum(each.stats.get(name, 0.0) for each in played) for name in names}
    seconds = played[0].seconds
    for each in played[1:]:
        seconds += each.seconds
    return replace(
        kept,
        tokens=sum(each.tokens for each in played),
        seconds=seconds,
        stats={**stats, "refill_rounds": float(rounds), "refilled_groups": float(len(replaced))},
        replaced=rest,
    )


def _groups(collected: Collected, size: int) -> list[Collected]:
    """The episodes of each group."""
    cuts = [slice(start, start + size) for start in range(0, len(collected.rollouts), size)]
    return [
        Collected(collected.rollouts[cut], collected.trajectories[cut], reasons=collected.reasons[cut])
        for cut in cuts
    ]


def _joined(parts: Sequence[Collected]) -> Collected:
    return Collected(
        [rollout for part in parts for rollout in part.rollouts],
        [trajectory for part in parts for trajectory in part.trajectories],
        reasons=[reason for part in parts for reason in part.reasons or [""] * len(part.rollouts)],
    )
