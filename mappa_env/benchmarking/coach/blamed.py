"""Whom a method names: the coach by its verdicts, and baselines that look at nothing but the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mappa_env.benchmarking.coach.measures import Share, share
from mappa_env.benchmarking.coach.rows import Play, Row

METHODS = ("coach", "trail", "first", "last", "first failing", "last failing", "random")
"""``trail``: backward tracing without a coach, of episodes without success (others have no failure to trace).
Baselines: ``first`` and ``last`` action; ``first failing`` and ``last failing``: of those whose code failed,
the last action where none did; ``random``: an agent of the team, and an action of the episode, by lot (the
expected share)."""


def hits(row: Row, method: str, agents: int) -> tuple[float, float]:
    """(agent named, action named), each 0 or 1, or the chance of it."""
    play = row.faulty
    assert play is not None
    if method == "random":
        return 1 / agents, 1 / len(play.actions)
    if method == "coach":
        return float(play.agent == row.agent), float(play.step == row.step)
    step = play.traced if method == "trail" else named(play, method)
    if step is None:
        return 0.0, 0.0
    return float(play.actions[step].agent == row.agent), float(step == row.step)


def named(play: Play, method: str) -> int:
    last = len(play.actions) - 1
    if method == "first":
        return 0
    failed = [step for step, action in enumerate(play.actions) if action.ran not in (None, "ok")]
    if "failing" in method and failed:
        return failed[0] if method == "first failing" else failed[-1]
    return last


def weights(rows: Sequence[Row]) -> list[float]:
    """Every agent that is at fault somewhere counts alike."""
    counts = Counter(row.agent for row in rows)
    return [1 / counts[row.agent] for row in rows]


def accuracies(rows: Sequence[Row], agents: int) -> dict[str, dict[str, Share]]:
    """method -> {agent, turn} -> share of the cases in which it names the culprit, and its very action."""
    w = weights(rows)
    found = {}
    for method in METHODS:
        both = [hits(row, method, agents) for row in rows]
        found[method] = {"agent": share([a for a, _ in both], w), "turn": share([t for _, t in both], w)}
    return found
