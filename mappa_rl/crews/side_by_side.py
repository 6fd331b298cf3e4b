"""The same work for several policies: at once where crews differ, one after another within a crew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from mappa_rl.crews.learner import CrewLearner
from mappa_rl.futures import in_background

_T = TypeVar("_T")


def side_by_side(learners: Mapping[str, Any], work: Callable[[str], _T]) -> dict[str, _T]:
    """``work(policy)`` for every policy in ``learners``, by policy in this order.

    What this process trains is done on the calling thread. Raises the first failure that it meets; other
    crews may be at work then.
    """
    crews: dict[int, list[str]] = {0: []}
    for name, learner in learners.items():
        crews.setdefault(learner.crew.number if isinstance(learner, CrewLearner) else 0, []).append(name)
    own = crews.pop(0)
    others = [in_background(partial(_each, names, work)) for names in crews.values()]
    found = _each(own, work)
    for other in others:
        found |= other.result()
    return {name: found[name] for name in learners}


def _each(names: Sequence[str], work: Callable[[str], _T]) -> dict[str, _T]:
    return {name: work(name) for name in names}
