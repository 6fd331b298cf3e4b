"""From turns to training sequences, and from sequences to packed micro-batches of bounded size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mappa_rl.errors import ContextError
from mappa_rl.types import Floats, PackedBatch, Sample, Span, Turn


def merge_turns(turns: Sequence[Turn], group: str = "", episode: int = 0) -> list[Sample]:
    """The training sequences of one episode's turns (all agents, in the order of their steps).

    Turns of one stay become one sample as long as every context starts with the previous context and action;
    where it does not, a new sample (``part`` + 1) begins. Ids are copied, never re-tokenised; ``group`` and
    ``episode`` are handed on. Raises ``ContextError`` where a turn cannot be what a sampler consumed and
    produced.
    """
    samples: list[Sample] = []
    stay: list[Turn] = []
    part = 0
    for turn in turns:
        _check(turn)
        last = stay[-1] if stay else None
        if last is not None and turn.step <= last.step:
            raise ContextError(f"step {turn.step} of {turn.agent} follows step {last.step}: order the turns.")
        if last is not None and not _extends(last, turn):
            samples.append(_sample(stay, part, group, episode))
            part = part + 1 if _same_stay(last, turn) else 0
            stay = []
        stay.append(turn)
    if stay:
        samples.append(_sample(stay, part, group, episode))
    return samples


def _check(turn: Turn) -> None:
    where = f"step {turn.step} of {turn.agent}"
    if not turn.context_ids or not turn.action_ids:
        raise ContextError(
            f"{where}: {len(turn.context_ids)} context and {len(turn.action_ids)} action ids; both need one."
        )
    if len(turn.logprobs) != len(turn.action_ids):
        raise ContextError(f"{where} has {len(turn.logprobs)} logprobs for {len(turn.action_ids)} ids.")


def _same_stay(last: Turn, turn: Turn) -> bool:
    return turn.agent == last.agent and turn.policy == last.policy and turn.turn == last.turn + 1


def _extends(last: Turn, turn: Turn) -> bool:
    past = len(last.context_ids) + len(last.action_ids)
    return (
        _same_stay(last, turn)
        and len(turn.context_ids) >= past
        and turn.context_ids[: len(last.context_ids)] == last.context_ids
        and turn.context_ids[len(last.context_ids) : past] == last.action_ids
    )


def _sample(stay: Sequence[Turn], part: int, group: str, episode: int) -> Sample:
    last = stay[-1]
    ids = np.array([*last.context_ids, *last.action_ids], np.int64)
    mask, logprobs = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.float32)
    spans = []
    for turn in stay:
        start, end = len(turn.context_ids), len(turn.context_ids) + len(turn.action_ids)
        mask[start:end], logprobs[start:end] = True, turn.logprobs
        cut = turn.stopped == "length"
        spans.append(Span(start, end, turn.reward, turn.valid, turn.step, turn.stratum, cut))
    sample = Sample(ids, mask, logprobs, tuple(spans), last.policy, last.agent, part, group, episode)
    return sample.check()


def split_by_tokens(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Deal sequences into micro-batches of at most ``budget`` tokens, neighbours in length together.

    Returns indices into ``lengths``. A sequence longer than the budget gets a micro-batch of its own: nothing
    is ever dropped or cut.
    """
    parts: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not parts or lengths[i] > room:
            parts.append([])
            room = budget
        parts[-1].append(i)
        room -= lengths[i]
    return parts


def pack(
    samples: Sequence[Sample],
    weights: Sequence[NDArray[np.generic]],
    advantages: Sequence[Floats] | None = None,
    reference: Sequence[Floats] | None = None,
    values: Sequence[Floats] | None = None,
    returns: Sequence[Floats] | None = None,
) -> PackedBatch:
    """Lay samples end to end; the tokens with a weight (one array [T] per sample) other than 0 are scored.

    The first token of a sample has no prediction, so its weight must be 0 (``ContextError``).
    """
    sizes = [len(sample) for sample in samples]
    flat = np.concatenate(weights).astype(np.float32)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    scored = flat.nonzero()[0]
    if flat[bounds[:-1]].any():
        raise ContextError("The first token of a sample has a weight, but nothing before it predicts it.")
    ids = np.concatenate([sample.ids for sample in samples])
    none = np.zeros(len(ids), np.float32)

    def of(arrays: Sequence[Floats] | None) -> Floats:
        return (none if arrays is None else np.concatenate(arrays))[scored]

    actions, counter = np.zeros(len(ids), np.int64), itertools.count()
    for sample, at in zip(samples, bounds[:-1], strict=True):
        for span in sample.spans:
            actions[at + span.start : at + span.end] = next(counter)
    return PackedBatch(
        ids=ids,
        position_ids=np.concatenate([np.arange(size) for size in sizes]),
        cu_seqlens=bounds,
        rows=scored - 1,
        targets=ids[scored],
        logprobs=np.concatenate([sample.logprobs for sample in samples])[scored],
        advantages=of(advantages),
        weights=flat[scored],
        reference=of(reference),
        actions=actions[scored],
        values=of(values),
        returns=of(returns),
    )


DUMMY = PackedBatch(
    ids=np.zeros(2, np.int64),
    position_ids=np.arange(2),
    cu_seqlens=np.array([0, 2], np.int32),
    rows=np.zeros(1, np.int64),
    targets=np.zeros(1, np.int64),
    logprobs=np.zeros(1, np.float32),
    advantages=np.zeros(1, np.float32),
    weights=np.zeros(1, np.float32),
    reference=np.zeros(1, np.float32),
    actions=np.zeros(1, np.int64),
    values=np.zeros(1, np.float32),
    returns=np.zeros(1, np.float32),
)
"""What a process without samples runs, so that collectives meet: no weight, no gradient."""
