"""From turns to training sequences, and from sequences to packed micro-batches of bounded size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mappa_rl.errors import ContextError
from mappa_rl.types import Sample, Span, Turn


def merge_turns(turns: Sequence[Turn]) -> list[Sample]:
    """The training sequences of one episode's turns (all agents, in the order of their steps).

    Turns of one stay become one sample as long as every context starts with the previous context and action;
    where it does not, a new sample (``part`` + 1) begins. Ids are copied, never re-tokenised. Raises
    ``ContextError`` where a turn cannot be what a sampler consumed and produced.
    """
    samples: list[Sample] = []
    stay: list[Turn] = []
    part = 0
    for turn in turns:
        _check(turn)
        last = stay[-1] if stay else None
        if last is not None and turn.step <= last.step:
            raise ContextError(
                f"step {turn.step} of {turn.agent} follows step {last.step}: turns out of order."
            )
        if last is not None and not _extends(last, turn):
            samples.append(_sample(stay, part))
            part = part + 1 if _same_stay(last, turn) else 0
            stay = []
        stay.append(turn)
    if stay:
        samples.append(_sample(stay, part))
    return samples


def _check(turn: Turn) -> None:
    where = f"step {turn.step} of {turn.agent}"
    if not turn.context_ids or not turn.action_ids:
        raise ContextError(
            f"{where} has {len(turn.context_ids)} context and {len(turn.action_ids)} action ids; both need one."
        )
    if len(turn.logprobs) != len(turn.action_ids):
        raise ContextError(
            f"{where} has {len(turn.logprobs)} logprobs for {len(turn.action_ids)} action ids."
        )


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


def _sample(stay: Sequence[Turn], part: int) -> Sample:
    last = stay[-1]
    ids = np.array([*last.context_ids, *last.action_ids], np.int64)
    mask, logprobs = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.float32)
    spans = []
    for turn in stay:
        start, end = len(turn.context_ids), len(turn.context_ids) + len(turn.action_ids)
        mask[start:end], logprobs[start:end] = True, turn.logprobs
        spans.append(Span(start, end, turn.reward, turn.valid, turn.step))
    return Sample(ids, mask, logprobs, tuple(spans), last.policy, last.agent, part).check()
