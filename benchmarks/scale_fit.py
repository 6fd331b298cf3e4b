"""The parameters of the scale model, from the records of measured runs, for ``scale_model.py``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scale_world import COACH_S, MOST_REQUESTS, Configuration, Measured

from mappa_rl.planning.setup import GENERATION, Setup
from mappa_rl.planning.stage import Stage


@dataclass(frozen=True)
class Parameters:
    """What two measurements say. Seconds, except for ``actions``, ``tokens`` and the spreads (fractions)."""

    pass_s: float
    request_s: float
    tokens: float
    tokens_spread: float
    actions: float
    environment_s: float
    processor_s: float
    """Of the process that plays, per action."""
    code_s: float
    code_spread: float
    coded: float
    """The fraction of actions that run code."""
    coach_s: float
    learner_s: float
    token_s: float
    """The learner's seconds of a step, and more for each token."""
    sync_s: float
    """Of one engine."""


def fit(runs: Sequence[tuple[Configuration, Measured]]) -> Parameters:
    """The parameters from runs of at least two configurations."""
    passes, learner = [], []
    tokens, code, environment, verdicts, actions = (
        list[float](),
        list[float](),
        list[float](),
        list[float](),
        [],
    )
    processor_s, count = 0.0, 0
    for chosen, run in runs:
        intervals, drawn = [], 0
        for played in run.played:
            for rollout, trajectory in zip(played.rollouts, played.trajectories, strict=True):
                actions.append(len(trajectory.actions))
                timings = trajectory.timings
                for turn, action, timing in zip(rollout.turns, trajectory.actions, timings, strict=True):
                    intervals.append((timing.at - timing.waited_s, timing.at))
                    tokens.append(len(turn.action_ids))
                    drawn += len(turn.action_ids)
                    code_s = action.tool.wall_s if action.tool else 0.0
                    code += [code_s] if action.tool else []
                    verdicts += [action.verdict.asked.latency_s] if action.verdict.asked else []
                    if action is not trajectory.actions[-1]:  # the last one waits for verdicts
                        environment.append(
                            timing.took_s - code_s - (action.tool.queued_s if action.tool else 0.0)
                        )
        generating = sum(end - begin for begin, end in intervals)
        passes.append((together(intervals) / chosen.engines, generating / drawn))
        learner.append((statistics.mean(each.tokens for each in run.played), run.learn_s))
        processor_s, count = processor_s + run.cpu_s, count + len(intervals)
    request_s, pass_s = statistics.linear_regression(*zip(*passes, strict=True))
    token_s, learner_s = statistics.linear_regression(*zip(*learner, strict=True))
    return Parameters(
        pass_s,
        max(request_s, 0.0),
        statistics.mean(tokens),
        statistics.stdev(tokens) / statistics.mean(tokens),
        statistics.mean(actions),
        statistics.mean(environment),
        processor_s / count,
        statistics.mean(code),
        statistics.stdev(code) / statistics.mean(code),
        len(code) / count,
        statistics.mean(verdicts),
        learner_s,
        token_s,
        statistics.mean(run.sync_s / chosen.engines for chosen, run in runs),
    )


def together(intervals: Sequence[tuple[float, float]]) -> float:
    """How many others, and itself, a request has beside it, averaged over the time of all requests."""
    changes = sorted([(begin, 1) for begin, _ in intervals] + [(end, -1) for _, end in intervals])
    count, area, squares = 0, 0.0, 0.0
    for (at, change), (until, _) in pairwise(changes):
        count += change
        area += count * (until - at)
        squares += count**2 * (until - at)
    return squares / area


def setup_of(found: Parameters, chosen: Configuration) -> Setup:
    """What the model is given for a configuration."""
    tokens, engines = found.tokens * chosen.length, chosen.engines
    full = tokens * (found.pass_s + found.request_s * MOST_REQUESTS)
    places = min(chosen.sandboxes, chosen.workers) if chosen.lockstep_groups else chosen.sandboxes
    verdict_s = found.coach_s * chosen.coach_s / COACH_S
    blocks = chosen.judging == "blocking"
    stages = (
        Stage(
            GENERATION,
            tokens * (found.pass_s + found.request_s),
            capacity=engines * MOST_REQUESTS / full,
            growth=tokens * found.request_s / engines,
            spread=found.tokens_spread,
        ),
        Stage("environment", found.environment_s, capacity=1 / found.processor_s),
        Stage(
            "sandbox",
            found.code_s,
            capacity=places / found.code_s / found.coded,
            visits=found.coded,
            spread=found.code_spread,
        ),
        Stage(
            "coach",
            verdict_s,
            capacity=chosen.coach_calls / verdict_s,
            visits=1.0 if blocks else 1 / found.actions,
        ),
    )
    learn_s = found.learner_s + found.token_s * chosen.episodes * found.actions * tokens
    return Setup(
        stages,
        chosen.episodes,
        found.actions,
        learn_s,
        found.sync_s * engines,
        chosen.staleness,
        chosen.lockstep_groups,
    )
