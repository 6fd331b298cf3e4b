"""From training sequences to packed micro-batches of bounded size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mappa_rl.errors import ContextError
from mappa_rl.learner.dealing import shares
from mappa_rl.types import Floats, PackedBatch, Sample

LOGITS_CHUNK = {"cpu": 2**24, "cuda": 2**27}
"""Numbers in the logits of one chunk (fp32: 64 MB, 512 MB); larger chunks use a GPU better."""


def split_by_tokens(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Divide sequences into micro-batches of at most ``budget`` tokens, with similar lengths together.

    Returns indices into ``lengths``. A sequence longer than the budget gets its own micro-batch: nothing is
    dropped or truncated.
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


def split_evenly(lengths: Sequence[int], budget: int, count: int) -> list[list[int]] | None:
    """Divide sequences into up to ``count`` micro-batches with equally many tokens, the largest first.

    So the k-th micro-batches of all processes have about the same size: under ZeRO 2 and 3 they wait for each
    other. None if one would exceed the ``budget``, unless it is a single sequence.
    """
    parts = [part for part in shares(lengths, count) if part]
    parts.sort(key=lambda part: -sum(lengths[i] for i in part))
    fit = all(len(part) == 1 or sum(lengths[i] for i in part) <= budget for part in parts)
    return parts if fit else None


def pack(
    samples: Sequence[Sample],
    weights: Sequence[NDArray[np.generic]],
    advantages: Sequence[Floats] | None = None,
    reference: Sequence[Floats] | None = None,
    values: Sequence[Floats] | None = None,
    returns: Sequence[Floats] | None = None,
    shares: Sequence[Floats] | None = None,
) -> PackedBatch:
    """Concatenate samples; tokens whose weight is not 0 are scored. ``weights``: one array [T] per sample.

    Without ``shares`` of the loss, the weights are the shares.

    Raises ContextError if the first token of a sample has a weight, because nothing predicts it.
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
        whole: Floats = none if arrays is None else np.concatenate(arrays)
        found: Floats = whole[scored]
        return found

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
        shares=flat[scored] if shares is None else of(shares),
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
    shares=np.zeros(1, np.float32),
    reference=np.zeros(1, np.float32),
    actions=np.zeros(1, np.int64),
    values=np.zeros(1, np.float32),
    returns=np.zeros(1, np.float32),
)
"""A batch without weight or gradient, for a process without samples: collectives need every process."""
