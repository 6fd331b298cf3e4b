"""Figures of a finished evaluation: success and score with intervals, pass@k, majorities, tokens, dollars."""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mappa_env.errors import EvaluationError, UnfinishedEvaluation
from mappa_env.evaluation.abandoned import Abandoned
from mappa_env.evaluation.contents import known
from mappa_env.evaluation.episodes import Played, Tokens
from mappa_env.evaluation.extent import digest_of
from mappa_env.grading.votes import pooled
from mappa_env.statistics.intervals import Interval, mean_ci, share_ci
from mappa_env.statistics.repeats import majority, pass_at_k


@dataclass(frozen=True, slots=True)
class Figures:
    """What an evaluation found in one environment.

    Intervals of 95 % are over tasks, not episodes: the episodes of one task are not independent (arXiv
    2411.00640). Those of rates are ``share_ci``'s; others redraw tasks. One task has none. ``success``: of an
    episode.
    ``values``: ``pass@k``, ``maj@n``, and the outcome's own metrics.
    """

    env: str
    tasks: int
    digest: str
    """Of the played tasks' ids."""
    samples: int
    success: Interval
    score: Interval
    values: Mapping[str, Interval]
    topics: Mapping[str, Interval]
    rewards: Mapping[str, float]
    flaws: Mapping[str, int]
    tokens: Mapping[str, Tokens]
    abandoned: Mapping[str, Tokens]
    """By agent: what episodes took that were not finished, or were played again."""
    seconds: float
    content: str = ""
    """Digest of what the tasks were, whatever their ids; empty if an episode does not say it."""

    @property
    def spent(self) -> Tokens:
        """Of all agents, in episodes with and without a result."""
        return functools.reduce(operator.add, [*self.tokens.values(), *self.abandoned.values()])


def figures(played: Sequence[Played], abandoned: Sequence[Abandoned] = ()) -> list[Figures]:
    """One for each environment, in the order in which they are first met. Raises EvaluationError for none."""
    if not played:
        raise EvaluationError("no episode has been played yet.")
    envs: defaultdict[str, list[Played]] = defaultdict(list)
    for each in played:
        envs[each.env].append(each)
    return [
        _figures(env, mine, [each.tokens for each in abandoned if each.env == env])
        for env, mine in envs.items()
    ]


def _figures(env: str, played: Sequence[Played], lost: Sequence[Mapping[str, Tokens]]) -> Figures:
    tasks: defaultdict[str, list[Played]] = defaultdict(list)
    for each in played:
        tasks[each.task_id].append(each)
    counts = {len(mine) for mine in tasks.values()}
    if len(counts) > 1:
        raise UnfinishedEvaluation(
            f"{env}: tasks have between {min(counts)} and {max(counts)} episodes, so the evaluation is not "
            "finished: run the same command again."
        )
    ids = [each.task_id for each in played]
    topics = {}
    for topic in sorted({each.topic for each in played}):
        mine = [each for each in played if each.topic == topic]
        topics[topic] = _mean([each.success for each in mine], [each.task_id for each in mine])
    return Figures(
        env=env,
        tasks=len(tasks),
        digest=digest_of(tasks),
        samples=counts.pop(),
        success=_mean([each.success for each in played], ids),
        score=_mean([each.score for each in played], ids),
        values=_repeats(list(tasks.values())) | _metrics(played),
        topics=topics if len(topics) > 1 else {},
        rewards=_average(each.rewards for each in played),
        flaws=dict(sum((Counter(each.flaws) for each in played), Counter())),
        tokens=_summed(each.tokens for each in played),
        abandoned=_summed(lost),
        seconds=sum(each.seconds for each in played),
        content=_content(env, played),
    )


def _content(env: str, played: Sequence[Played]) -> str:
    """Of all tasks. Raises EvaluationError if one was played with two contents."""
    by_task = known(played)
    if mixed := next((e for e in played if e.content not in ("", by_task.get((env, e.task_id)))), None):
        raise EvaluationError(
            f"{env}: episodes of {mixed.task_id} were played on two tasks with this id, so they are not one "
            "evaluation: evaluate again with another --out."
        )
    return digest_of(by_task.values()) if all(each.content for each in played) else ""


def _repeats(tasks: Sequence[Sequence[Played]]) -> dict[str, Interval]:
    n = len(tasks[0])
    if n == 1:
        return {}
    found = {}
    for k in sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n}):
        shares = [pass_at_k(n, sum(e.success for e in mine), k) for mine in tasks]
        found[f"pass@{k}"] = over_tasks(share_ci(shares, n // k))
    if any(each.answer is not None for mine in tasks for each in mine):
        found[f"maj@{n}"] = over_tasks(share_ci([_majority(mine) for mine in tasks]))
    return found


def _majority(episodes: Sequence[Played]) -> float:
    """Whether the most common answer to one task is right."""
    votes = pooled([each.answer for each in episodes])
    right, _ = majority(list(zip(votes, [each.success for each in episodes], strict=True)))
    return right


def _metrics(played: Sequence[Played]) -> dict[str, Interval]:
    """The outcome's metrics that every episode has, as finite numbers."""
    names = set(played[0].metrics).intersection(*(each.metrics for each in played))
    names = {name for name in names if all(math.isfinite(each.metrics[name]) for each in played)}
    ids = [each.task_id for each in played]
    return {name: _mean([each.metrics[name] for each in played], ids) for name in sorted(names)}


def _mean(values: Sequence[float], tasks: Sequence[str]) -> Interval:
    """With the interval of a share, if all values are 0 or 1."""
    if not set(values) <= {0, 1}:
        return over_tasks(mean_ci([float(value) for value in values], problems=tasks))
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    for value, task in zip(values, tasks, strict=True):
        by_task[task].append(value)
    shares = [sum(mine) / len(mine) for mine in by_task.values()]
    return over_tasks(share_ci(shares, min(len(mine) for mine in by_task.values())))


def over_tasks(found: Interval) -> Interval:
    """``found`` without ends if it is of one task, which says nothing about others."""
    return found if found.n > 1 else found.unbounded


def _average(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of those episodes in which the agent has a valid reward."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for agent, reward in row.items():
            found[agent].append(reward)
    return {agent: sum(rewards) / len(rewards) for agent, rewards in found.items()}


def _summed(rows: Iterable[Mapping[str, Tokens]]) -> dict[str, Tokens]:
    found: dict[str, Tokens] = {}
    for row in rows:
        for agent, tokens in row.items():
            found[agent] = found[agent] + tokens if agent in found else tokens
    return found
