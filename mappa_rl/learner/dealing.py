"""Which process gets which samples, so that all have equally many tokens."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from mappa_rl.learner.minibatches import Minibatches


class Share(NamedTuple):
    """One process's part of a step.

    ``held``: for each term of the loss, the indices of the samples that it needs. ``minibatches``: its part
    of each update, as indices into those.
    """

    held: list[list[int]]
    minibatches: Minibatches


def deal(minibatches: Minibatches, lengths: Sequence[Sequence[int]], count: int) -> list[Share]:
    """Divide every minibatch among ``count`` processes; ``lengths`` (tokens) of each term's samples.

    A minibatch is the same set of samples for any number of processes.
    """
    dealt = [
        [
            [[chosen[at] for at in mine] for mine in shares([sizes[i] for i in chosen], count)]
            for chosen, sizes in zip(update, lengths, strict=True)
        ]
        for update in minibatches.chosen
    ]
    found: list[Share] = []
    for process in range(count):
        updates = [[term[process] for term in update] for update in dealt]
        held = [sorted({i for update in updates for i in update[k]}) for k in range(len(lengths))]
        places = [{i: at for at, i in enumerate(mine)} for mine in held]
        local = [
            [[place[i] for i in mine] for mine, place in zip(update, places, strict=True)]
            for update in updates
        ]
        found.append(Share(held, Minibatches(local, minibatches.random)))
    return found


def shares(lengths: Sequence[int], count: int) -> list[list[int]]:
    """Divide samples of these lengths (tokens) into ``count`` parts: longest first, to the smallest part."""
    loads = [(0, part) for part in range(count)]
    dealt: list[list[int]] = [[] for _ in range(count)]
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        load, part = loads[0]
        dealt[part].append(i)
        heapq.heapreplace(loads, (load + lengths[i], part))
    return [sorted(mine) for mine in dealt]
