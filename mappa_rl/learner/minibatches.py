"""Which samples each update of a step learns from."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Minibatches(NamedTuple):
    """The minibatches of all passes over a step's samples, in order.

    ``chosen``: for each update and each term of its loss, the indices of the samples. ``random``: the state
    of the generator after the draw, which becomes its state once the updates are done.
    """

    chosen: list[list[list[int]]]
    random: Mapping[str, Any]


def draw(
    random: np.random.Generator, pools: Sequence[Sequence[int]], *, epochs: int, minibatches: int
) -> Minibatches:
    """In every pass, shuffle each term's pool and cut it into ``minibatches`` parts of even count.

    ``random`` itself stays as it is. Nothing is drawn if the first pool is empty.
    """
    random = copy.deepcopy(random)
    chosen: list[list[list[int]]] = []
    for _ in range(epochs if pools[0] else 0):
        order = [random.permutation(np.array(pool, np.int64)) for pool in pools]
        parts = [np.array_split(each, minibatches) for each in order]
        chosen += [[each.tolist() for each in update] for update in zip(*parts, strict=True)]
    return Minibatches(chosen, random.bit_generator.state)
