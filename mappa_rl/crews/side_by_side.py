"""The same work for several policies: at once where crews differ, one after another within a crew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from mappa_rl.futures import in_background

_T = TypeVar("_T")


def side_by_side(crew_of: Mapping[str, int], work: Callable[[str], _T]) -> dict[str, _T]:
    """``work(policy)`` for every policy in ``crew_of``, by policy in this order.

    ``crew_of``: policy -> number of its crew. What crew 0 has is done on the calling thread. Raises the first
    failure that it meets; other crews may be at work then.
    """
    crews: dict[int, list[str]] = {0: []}
    for name, number in crew_of.items():
        crews.setdefault(number, []).append(name)
    own = crews.pop(0)
    others = [in_background(partial(_each, names, work)) for names in crews.values()]
    found = _each(own, work)
    for other in others:
        found |= other.result()
    return {name: found[name] for name in crew_of}


def _each(names: Sequence[str], work: Callable[[str], _T]) -> dict[str, _T]:
    return {name: work(name) for name in names}
