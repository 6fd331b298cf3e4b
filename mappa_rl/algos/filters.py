"""Filters: which actions are trained on, and the penalty for their length. They run before the algorithm.

An action that is left out is treated like one without a valid reward: weight 0, and part of no statistic.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from mappa_rl.algos.returns import MIN_VAR
from mappa_rl.config import Algo, Rollout
from mappa_rl.types import Sample, Span, StepStats


def choose(samples: Sequence[Sample], algo: Algo, rollout: Rollout) -> tuple[list[Sample], StepStats]:
    """Apply the filters of the ``algo`` section to one policy's samples.

    Stats, where they apply: ``overlong`` (fraction of actions with a length penalty) and
    ``zero_variance_groups`` (fraction of groups whose rewards are all equal).
    """
    out, stats = list(samples), StepStats()
    if algo.mask_truncated:
        out = [_changed(s, lambda span: dataclasses.replace(span, valid=False), _cut) for s in out]
    if algo.overlong_penalty:
        buffer = algo.overlong_buffer
        long = [overlong(s, rollout.longest(own.agent), buffer) > 0 for own in out for s in own.spans]
        stats["overlong"] = float(np.mean(long)) if long else 0.0
        out = [_penalised(own, rollout.longest(own.agent), buffer, algo.overlong_penalty) for own in out]
    if rollout.group_size > 1:
        flat, groups = zero_variance_groups(out)
        stats["zero_variance_groups"] = len(flat) / groups if groups else 0.0
        if algo.drop_zero_variance_groups:
            out = [
                _changed(s, lambda span: dataclasses.replace(span, valid=False), lambda _: True)
                if (s.group, s.agent) in flat
                else s
                for s in out
            ]
    return out, stats


def overlong(span: Span, limit: int, buffer: int) -> float:
    """Return the fraction of the penalty for this length, in [0, 1].

    It is 0 up to ``limit - buffer`` tokens and rises to 1 at ``limit`` (arXiv 2503.14476, equation 13).
    """
    return min(max((span.end - span.start - (limit - buffer)) / buffer, 0.0), 1.0)


def zero_variance_groups(samples: Sequence[Sample]) -> tuple[set[tuple[str, str]], int]:
    """Return the (task, agent) pairs whose valid rewards are all equal, and the number of pairs with any."""
    rewards: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in samples:
        rewards[sample.group, sample.agent] += [span.reward for span in sample.spans if span.valid]
    found = {key: values for key, values in rewards.items() if values}
    return {key for key, values in found.items() if np.var(values) <= MIN_VAR}, len(found)


def _penalised(sample: Sample, limit: int, buffer: int, points: float) -> Sample:
    def lowered(span: Span) -> Span:
        return dataclasses.replace(span, reward=span.reward - points * overlong(span, limit, buffer))

    return _changed(sample, lowered, lambda span: overlong(span, limit, buffer) > 0)


def _cut(span: Span) -> bool:
    return span.truncated


def _changed(sample: Sample, change: Callable[[Span], Span], which: Callable[[Span], bool]) -> Sample:
    spans = tuple(change(span) if span.valid and which(span) else span for span in sample.spans)
    return dataclasses.replace(sample, spans=spans)
