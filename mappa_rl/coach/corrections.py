"""Corrected actions as demonstrations: what the coach would have done, in the context of the agent.

Only corrected actions that were carried out and scored higher are used (``mappa_env.episode.corrections``).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from mappa_env.types import ActionRecord
from mappa_rl.learner.samples import merge_turns
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.types import Collected
from mappa_rl.types import Demonstrations, Sample, Turn


def corrected_turns(collected: Collected, policies: Policies) -> list[Turn]:
    """The kept corrected actions of trainable policies as turns, replacing the actions that were taken.

    An action that exceeds the model's length is dropped: half an action would teach the policy to stop early.
    """
    turns = []
    for turn, record in _kept(collected):
        policy = policies[turn.policy]
        if turn.policy not in policies.map.trainable:
            continue
        assert record.correction is not None
        ids = policy.chat.reply(record.correction.action)
        if len(turn.context_ids) + len(ids) > policy.engine.max_len:
            continue
        turns.append(dataclasses.replace(turn, action_ids=ids, logprobs=[0.0] * len(ids)))
    return turns


def demonstrations(turns: Sequence[Turn], coef: float) -> dict[str, Demonstrations]:
    """Per policy that has any: one sample per corrected turn, with weight on its action tokens only."""
    samples: defaultdict[str, list[Sample]] = defaultdict(list)
    for turn in turns:
        samples[turn.policy] += merge_turns([turn])
    return {
        name: Demonstrations(mine, [sample.action_mask.astype(np.float32) for sample in mine], coef)
        for name, mine in samples.items()
    }


def corrected_action_stats(collected: Collected) -> dict[str, float]:
    """Counts ``corrections/proposed`` and ``corrections/kept``, and ``corrections/kept_gain`` in mean points.

    Empty if none was proposed.
    """
    proposed = [
        record.correction
        for trajectory in collected.trajectories
        for record in trajectory.actions
        if record.correction is not None
    ]
    if not proposed:
        return {}
    gains = [(c.verdict.score or 0.0) - (c.was or 0.0) for c in proposed if c.kept]
    stats = {"corrections/proposed": float(len(proposed)), "corrections/kept": float(len(gains))}
    return stats | ({"corrections/kept_gain": float(np.mean(gains))} if gains else {})


def _kept(collected: Collected) -> Iterator[tuple[Turn, ActionRecord]]:
    for rollout, trajectory in zip(collected.rollouts, collected.trajectories, strict=True):
        if rollout.ended != "done":
            continue
        for turn in rollout.turns:
            record = trajectory.actions[turn.step]
            if record.correction is not None and record.correction.kept and not turn.passed:
                yield turn, record
