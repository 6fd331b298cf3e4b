"""Which actions are learned from, and what their length costs, before anything is credited.

An action that is left out is like one without a valid reward: it has weight 0 and counts in no statistic.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from mappa_rl.algos.returns import MIN_VAR
from mappa_rl.sections import Algo, Rollout
from mappa_rl.types import Sample, Span, StepStats


def choose(samples: Sequence[Sample], algo: Algo, rollout: Rollout) -> tuple[list[Sample], StepStats]:
    """One policy's samples as the ``algo`` section wants them. Stats: ``overlong`` (share of actions that pay
    for their length), ``flat_groups`` (share of groups in which all are paid the same); where they apply."""
    out, stats = list(samples), StepStats()
    if algo.mask_truncated:
        out = [_changed(s, lambda span: dataclasses.replace(span, valid=False), _cut) for s in out]
    if algo.overlong_penalty:
        buffer = algo.overlong_buffer
        pays = [overlong(s, rollout.longest(own.agent), buffer) > 0 for own in out for s in own.spans]
        stats["overlong"] = float(np.mean(pays)) if pays else 0.0
        out = [_fined(own, rollout.longest(own.agent), buffer, algo.overlong_penalty) for own in out]
    if rollout.samples_per_task > 1:
        flat, groups = flat_groups(out)
        stats["flat_groups"] = len(flat) / groups if groups else 0.0
        if algo.drop_flat_groups:
            out = [
                _changed(s, lambda span: dataclasses.replace(span, valid=False), lambda _: True)
                if (s.group, s.agent) in flat
                else s
                for s in out
            ]
    return out, stats


def overlong(span: Span, limit: int, buffer: int) -> float:
    """Share of the penalty: 0 up to ``limit - buffer`` tokens, rising to 1 at ``limit`` (arXiv 2503.14476,
    equation 13)."""
    return min(max((span.end - span.start - (limit - buffer)) / buffer, 0.0), 1.0)


def flat_groups(samples: Sequence[Sample]) -> tuple[set[tuple[str, str]], int]:
    """The (task, agent) whose valid rewards are all equal, and how many (task, agent) have any."""
    rewards: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in samples:
        rewards[sample.group, sample.agent] += [span.reward for span in sample.spans if span.valid]
    found = {key: values for key, values in rewards.items() if values}
    return {key for key, values in found.items() if np.var(values) <= MIN_VAR}, len(found)


def _fined(sample: Sample, limit: int, buffer: int, points: float) -> Sample:
    def pay(span: Span) -> Span:
        return dataclasses.replace(span, reward=span.reward - points * overlong(span, limit, buffer))

    return _changed(sample, pay, lambda span: overlong(span, limit, buffer) > 0)


def _cut(span: Span) -> bool:
    return span.truncated


def _changed(sample: Sample, change: Callable[[Span], Span], which: Callable[[Span], bool]) -> Sample:
    spans = tuple(change(span) if span.valid and which(span) else span for span in sample.spans)
    return dataclasses.replace(sample, spans=spans)
