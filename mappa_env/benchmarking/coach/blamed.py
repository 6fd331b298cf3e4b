"""The agent and action that each method blames: the coach's verdicts, backward tracing, baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mappa_env.benchmarking.coach.measures import Proportion, proportion
from mappa_env.benchmarking.coach.rows import Play, Row

METHODS = ("coach", "tracing", "first", "last", "first failing", "last failing", "random")
"""``tracing``: backward tracing without a coach, for failed episodes (others have no failure to trace).
Baselines: ``first`` and ``last`` action; ``first failing`` and ``last failing``: among the actions whose code
failed, else the last action; ``random``: the probability of hitting agent and action at random."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often a method blames the right ``agent``, and the right action (``turn``)."""

    agent: Proportion
    turn: Proportion


def hits(row: Row, method: str, agents: int) -> tuple[float, float]:
    """(agent is right, action is right) for one case: 0 or 1; for ``random``, the probabilities."""
    play = row.faulty
    assert play is not None
    if method == "random":
        return 1 / agents, 1 / len(play.actions)
    if method == "coach":
        return float(play.agent == row.agent), float(play.step == row.step)
    step = play.traced if method == "tracing" else baseline(play, method)
    if step is None:
        return 0.0, 0.0
    return float(play.actions[step].agent == row.agent), float(step == row.step)


def baseline(play: Play, method: str) -> int:
    """The step that a baseline of ``METHODS`` blames."""
    last = len(play.actions) - 1
    if method == "first":
        return 0
    failed = [step for step, action in enumerate(play.actions) if action.ran not in (None, "ok")]
    if "failing" in method and failed:
        return failed[0] if method == "first failing" else failed[-1]
    return last


def weights(rows: Sequence[Row]) -> list[float]:
    """Weights that give every culprit agent the same total."""
    counts = Counter(row.agent for row in rows)
    return [1 / counts[row.agent] for row in rows]


def accuracies(rows: Sequence[Row], agents: int) -> dict[str, Accuracy]:
    """The accuracy of every method over ``rows``, for a team of ``agents``."""
    w = weights(rows)
    found = {}
    for method in METHODS:
        both = [hits(row, method, agents) for row in rows]
        found[method] = Accuracy(proportion([a for a, _ in both], w), proportion([t for _, t in both], w))
    return found
