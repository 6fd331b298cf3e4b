"""The figures of a benchmark run, computed from its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mappa_env.benchmarking.coach.blamed import Accuracy, accuracies
from mappa_env.benchmarking.coach.controls import Controlled, Earned, earned
from mappa_env.benchmarking.coach.measures import (
    Bin,
    Mean,
    Proportion,
    auc,
    mean,
    percentile,
    pooled_sd,
    proportion,
    reliability,
    spearman,
)
from mappa_env.benchmarking.coach.rows import Judged, Play, Row

GROUPS: dict[str, Callable[[Row], bool]] = {
    "all": lambda row: True,
    "file and code": lambda row: row.kind in ("file", "code"),
    "value": lambda row: row.kind == "value",
    "text": lambda row: row.kind == "text",
    "later turns": lambda row: row.turn > 0,
}
KEPT = 0.6
"""The part of its clean score that a later agent keeps if it does not pay for another agent's fault."""


@dataclass(frozen=True, slots=True)
class Scores:
    """How the scores (0-10) reflect a fault.

    ``gap``: clean minus faulty score of the culprit's action. ``margin``: lowest score of another agent minus
    that of the culprit's action; ``strictly_lowest``: the proportion of cases in which it is above 0.
    ``victims_ratio``: the scores of later agents' actions, as multiples of those of the same actions of the
    clean twin; ``victims_kept``: the proportion that keep KEPT. ``false_alarm``: the proportion of clean
    episodes in which the verdicts blame an agent.
    """

    gap: Mean
    margin: Mean
    margin_median: float
    strictly_lowest: Proportion
    victims_ratio: Mean
    victims_kept: Proportion
    false_alarm: Proportion


@dataclass(frozen=True, slots=True)
class Calibration:
    """The mean score of an episode's actions against its outcome, over faulty episodes and clean twins.

    ``spearman`` uses the outcome's score; ``auc``, ``ece`` and ``bins`` use whether the episode is the clean
    twin, which succeeded.
    """

    episodes: int
    auc: float
    spearman: float
    ece: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Stability:
    """Repeated verdicts on the same evidence. ``sd``: standard deviation within an action, in points.

    ``equal``: proportion of actions whose scores are all equal; ``without_score``: fraction of verdicts.
    """

    actions: int
    sd: float
    equal: Proportion
    without_score: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Number of verdicts on the cases, the fraction of each status, and the model's usage, including repeats.

    ``dollars`` None: the price is not known. Latencies are in seconds.
    """

    verdicts: int
    status: dict[str, float]
    calls: float
    prompt: float
    cached: float
    output: float
    thoughts: float
    dollars: float | None
    latency_p50_s: float
    latency_p95_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All figures of a run.

    ``accuracy``: group of cases -> method -> accuracy; ``lowest``: group -> culprit's action strictly lowest;
    ``controls``: kind of control -> what it earns.
    """

    tried: int
    counted: int
    discarded: dict[str, int]
    culprits: dict[str, int]
    layouts: dict[str, int]
    accuracy: dict[str, dict[str, Accuracy]]
    missed: dict[str, int]
    scores: Scores
    lowest: dict[str, Proportion]
    controls: dict[str, Earned]
    calibration: Calibration
    stability: Stability
    cost: Cost


def summary(rows: Sequence[Row], agents: Sequence[str], controls: Sequence[Controlled] = ()) -> Summary:
    """The figures of ``rows``, the cases of a team of ``agents``, and of ``controls``."""
    counted = [row for row in rows if not row.discarded]
    groups = {name: [row for row in counted if wanted(row)] for name, wanted in GROUPS.items()}
    return Summary(
        tried=len(rows),
        counted=len(counted),
        discarded=dict(Counter(row.discarded for row in rows if row.discarded)),
        culprits={agent: sum(row.agent == agent for row in counted) for agent in agents},
        layouts=dict(Counter(map(layout, counted)).most_common()),
        accuracy={name: accuracies(mine, len(agents)) for name, mine in groups.items() if mine},
        missed=missed(counted),
        scores=scores(counted),
        lowest={name: scores(mine).strictly_lowest for name, mine in groups.items() if mine},
        controls=earned(controls),
        calibration=calibration(counted),
        stability=stability(counted),
        cost=cost(counted),
    )


def layout(row: Row) -> str:
    """The layout without names: whether the culprit or another agent has extra turns."""
    who, _, what = row.layout.partition(" ")
    return what if who == row.agent else f"another {what}" if what else who


def missed(rows: Sequence[Row]) -> dict[str, int]:
    """Counts of "fault -> what the coach blamed instead", most frequent first."""
    found = Counter[str]()
    for row in rows:
        assert row.faulty is not None
        play = row.faulty
        if play.step != row.step:
            other = "nobody" if play.step is None else f"{play.agent} turn {play.actions[play.step].turn}"
            found[f"{row.agent} turn {row.turn} {row.fault} ({layout(row)}) -> {other}"] += 1
    return dict(found.most_common())


def scores(rows: Sequence[Row]) -> Scores:
    """The scores of faulty actions, of the other agents, and of the clean twins."""
    gaps, margins, ratios = [], [], []
    for row in rows:
        assert row.faulty is not None
        assert row.clean is not None
        guilty = row.faulty.actions[row.step].score
        before = {(a.agent, a.turn): a.score for a in row.clean.actions}
        right = before.get((row.agent, row.turn))
        if guilty is not None and right is not None:
            gaps.append(right - guilty)
        others = [a.score for a in row.faulty.actions if a.agent != row.agent and a.score is not None]
        if guilty is not None and others:
            margins.append(min(others) - guilty)
        for action in row.faulty.actions[row.step + 1 :]:
            then = before.get((action.agent, action.turn))
            if action.agent != row.agent and action.score is not None and then:
                ratios.append(action.score / then)
    twins = [play for play, clean in episodes(rows) if clean]
    return Scores(
        gap=mean(gaps),
        margin=mean(margins),
        margin_median=percentile(margins, 50),
        strictly_lowest=proportion([float(m > 0) for m in margins]),
        victims_ratio=mean(ratios),
        victims_kept=proportion([float(ratio >= KEPT - 1e-9) for ratio in ratios]),
        false_alarm=proportion([float(play.agent is not None) for play in twins]),
    )


def episodes(rows: Sequence[Row]) -> Iterator[tuple[Play, bool]]:
    """(episode, whether it is a clean twin); a twin of several cases occurs once."""
    seen = set()
    for row in rows:
        assert row.faulty is not None
        assert row.clean is not None
        yield row.faulty, False
        key = (row.task, row.seed, row.layout)
        if key not in seen:
            seen.add(key)
            yield row.clean, True


def calibration(rows: Sequence[Row]) -> Calibration:
    """How well the mean score of an episode predicts its outcome."""
    x, y, outcomes = [], [], []
    for play, clean in episodes(rows):
        found = [action.score for action in play.actions if action.score is not None]
        if found:
            x.append(sum(found) / len(found) / 10)
            y.append(clean)
            outcomes.append(play.outcome)
    bins, error = reliability(x, y)
    return Calibration(len(x), auc(x, y), spearman(x, outcomes), error, tuple(bins))


def stability(rows: Sequence[Row]) -> Stability:
    """How much repeated verdicts differ."""
    groups, lost = [], []
    for action in actions(rows):
        if action.again:
            answers = [action.score, *action.again]
            groups.append([score for score in answers if score is not None])
            lost.append(sum(score is None for score in answers) / len(answers))
    equal = [float(len(set(group)) == 1) for group in groups if len(group) > 1]
    without_score = sum(lost) / len(lost) if lost else math.nan
    return Stability(len(groups), pooled_sd(groups), proportion(equal), without_score)


def cost(rows: Sequence[Row]) -> Cost:
    """The verdicts of all episodes and their cost."""
    found = list(actions(rows))
    usage = [each for a in found for each in ((a.usage, *a.again_usage) if a.usage else a.again_usage)]
    sums = {
        name: sum(each[name] or 0 for each in usage)
        for name in ("calls", "prompt", "cached", "output", "thoughts")
    }
    priced = [each["dollars"] for each in usage]
    asked = [float(each["seconds"] or 0) for each in usage if each["calls"]]
    return Cost(
        verdicts=len(found) + sum(len(a.again) for a in found),
        status={name: n / len(found) for name, n in Counter(a.status for a in found).items()},
        **sums,
        dollars=None if not priced or None in priced else sum(each or 0.0 for each in priced),
        latency_p50_s=percentile(asked, 50),
        latency_p95_s=percentile(asked, 95),
    )


def actions(rows: Sequence[Row]) -> Iterator[Judged]:
    """The judged actions of all ``episodes``."""
    for play, _ in episodes(rows):
        yield from play.actions
