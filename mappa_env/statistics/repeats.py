"""Several episodes of one task: pass@k, and what a majority of them would have answered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from mappa_env.errors import StatsError


def pass_at_k(n: int, successes: int, k: int) -> float:
    """The chance that one of ``k`` episodes of a task succeeds, from ``n`` of which ``successes`` did.

    Unbiased: 1 - C(n - c, k) / C(n, k), the fraction of all choices of k that contain a success (arXiv
    2107.03374).
    """
    if not 1 <= k <= n or not 0 <= successes <= n:
        raise StatsError(f"pass@{k} of {successes} successes in {n} episodes: needs 1 <= k <= n, c <= n.")
    return 1.0 - math.comb(n - successes, k) / math.comb(n, k)


def majority(answers: Sequence[tuple[str | None, bool]]) -> tuple[float, bool]:
    """(answer, is it right) of one task's episodes -> the majority's expected success, and whether it tied.

    If one answer was graded both right and wrong (a grader timed out, or some left a unit open), its success
    is the mean of its grades.
    """
    counts = Counter(answer for answer, _ in answers if answer is not None)
    if not counts:
        return 0.0, False
    most = max(counts.values())
    first = [answer for answer, count in counts.items() if count == most]
    rates = [sum(right for a, right in answers if a == answer) / most for answer in first]
    return sum(rates) / len(rates), len(first) > 1
