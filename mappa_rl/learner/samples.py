"""From recorded turns to training sequences, with exactly the ids that the engine consumed and sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mappa_rl.errors import ContextError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.types import Rollout, Sample, Span, Turn


def training_samples(policies: PolicyMap, rollouts: Sequence[Rollout]) -> dict[str, list[Sample]]:
    """Training sequences by trainable policy, in the order of the rollouts.

    Turns of frozen agents, and those that were passed, are left out. Raises ContextError unless exactly one
    sequence contains each other turn, with exactly the ids that the engine consumed and sampled.
    """
    out: dict[str, list[Sample]] = {name: [] for name in policies.trainable}
    for episode, rollout in enumerate(rollouts):
        turns = [turn for turn in rollout.turns if turn.agent not in policies.frozen and not turn.passed]
        for turn in turns:
            if turn.policy != policies.of(turn.agent):
                raise ContextError(
                    f"Step {turn.step} of {rollout.task_id!r} was sampled from policy {turn.policy!r}, but "
                    f"{policies.of(turn.agent)!r} plays {turn.agent}: is this another run's rollout?"
                )
        for sample in merge_turns(turns, rollout.task_id, episode):
            out[sample.policy].append(sample)
    return out


def merge_turns(turns: Sequence[Turn], group: str = "", episode: int = 0) -> list[Sample]:
    """The training sequences of one episode's turns (all agents, in the order of their steps).

    The turns of one agent become one sample as long as every context starts with the agent's previous context
    and action, whoever acted between; otherwise a new sample (``part`` + 1) begins. Samples are in the order
    of their agents' first turns. Ids are copied, never tokenised again. Every sample gets ``group`` and
    ``episode``.

    Raises:
        ContextError: A turn is invalid, turns are out of order, or a sample differs from its turns.
    """
    by_agent: dict[str, list[Turn]] = {}
    before = -1
    for turn in turns:
        if wrong := invalid(turn):
            raise ContextError(f"Step {turn.step} of {turn.agent}: {wrong}.")
        if turn.step <= before:
            raise ContextError(f"Step {turn.step} of {turn.agent} follows step {before}: sort the turns.")
        before = turn.step
        by_agent.setdefault(turn.agent, []).append(turn)
    samples: list[Sample] = []
    for mine in by_agent.values():
        samples += _merge(mine, group, episode)
    check_fidelity(turns, samples)
    return samples


def _merge(turns: Sequence[Turn], group: str, episode: int) -> list[Sample]:
    """The sequences of one agent's turns."""
    samples: list[Sample] = []
    part = 0
    merged = [turns[0]]
    for turn in turns[1:]:
        if not _extends(merged[-1], turn):
            samples.append(_sample(merged, part, group, episode))
            part = part + 1 if _follows(merged[-1], turn) else 0
            merged = []
        merged.append(turn)
    return [*samples, _sample(merged, part, group, episode)]


def invalid(turn: Turn) -> str:
    """What is wrong with this turn; empty if it is valid."""
    if turn.passed:
        return "it was passed, but has an action" if turn.action_ids or turn.logprobs or turn.valid else ""
    if not turn.context_ids or not turn.action_ids:
        return "its context or its action is empty"
    if min(*turn.context_ids, *turn.action_ids) < 0:
        return "a token id is negative"
    if len(turn.logprobs) != len(turn.action_ids):
        return f"{len(turn.logprobs)} log-probs for {len(turn.action_ids)} ids"
    if not all(math.isfinite(value) and value <= 0 for value in turn.logprobs):
        return "a log-prob is not finite, or is above 0"
    if turn.valid and not math.isfinite(turn.reward):
        return f"its reward {turn.reward} is not finite"
    return ""


def _follows(last: Turn, turn: Turn) -> bool:
    return turn.policy == last.policy and turn.turn == last.turn + 1


def _extends(last: Turn, turn: Turn) -> bool:
    past = len(last.context_ids) + len(last.action_ids)
    return (
        _follows(last, turn)
        and len(turn.context_ids) >= past
        and turn.context_ids[: len(last.context_ids)] == last.context_ids
        and turn.context_ids[len(last.context_ids) : past] == last.action_ids
    )


def _sample(turns: Sequence[Turn], part: int, group: str, episode: int) -> Sample:
    last = turns[-1]
    ids = np.array([*last.context_ids, *last.action_ids], np.int64)
    mask, logprobs = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.float32)
    spans = []
    for turn in turns:
        start, end = len(turn.context_ids), len(turn.context_ids) + len(turn.action_ids)
        mask[start:end], logprobs[start:end] = True, turn.logprobs
        cut = turn.stopped == "length"
        spans.append(Span(start, end, turn.reward, turn.valid, turn.step, turn.stratum, cut))
    return Sample(ids, mask, logprobs, tuple(spans), last.policy, last.agent, part, group, episode)


def check_fidelity(turns: Sequence[Turn], samples: Sequence[Sample]) -> None:
    """Raise ``ContextError`` unless ``samples`` contain every turn of one episode once and unchanged.

    A turn is unchanged if agent, policy, context ids, action ids, log-probs and reward are those of the turn.
    No other token may be trained on.
    """
    spans = [(span, sample) for sample in samples for span in sample.spans]
    by_step = {span.step: (span, sample) for span, sample in spans}
    held, sampled = sorted(span.step for span, _ in spans), sorted(turn.step for turn in turns)
    if held != sampled or len(by_step) != len(spans):
        raise ContextError(f"Sequences must contain every sampled step once, {sampled}; found {held}.")
    for sample in samples:
        actions = np.zeros(len(sample), np.int64)
        for span in sample.spans:
            actions[span.start : span.end] += 1
        if not np.array_equal(actions, sample.action_mask) or sample.logprobs[~sample.action_mask].any():
            raise ContextError(
                f"A sequence of {sample.agent} (policy {sample.policy}) marks tokens other than its actions."
            )
    for turn in turns:
        span, sample = by_step[turn.step]
        cut = slice(span.start, span.end)
        same = {
            "policy": (sample.agent, sample.policy) == (turn.agent, turn.policy),
            "context": np.array_equal(sample.ids[: span.start], turn.context_ids),
            "action ids": np.array_equal(sample.ids[cut], turn.action_ids),
            "action mask": bool(sample.action_mask[cut].all()),
            "log-probs": np.array_equal(sample.logprobs[cut], np.asarray(turn.logprobs, np.float32)),
            "reward": span.valid == turn.valid and (not turn.valid or span.reward == turn.reward),
        }
        wrong = [what for what, equal in same.items() if not equal]
        if wrong:
            raise ContextError(
                f"Step {turn.step} of {turn.agent}: {' and '.join(wrong)} of the training sequence differ "
                "from what the engine consumed and sampled. Build sequences from the recorded ids only."
            )
