"""All figures of a benchmark, from its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from mappa_env.benchmarking.coach.measures import (
    auc,
    mean,
    percentile,
    pooled_sd,
    reliability,
    share,
    spearman,
)
from mappa_env.benchmarking.coach.naming import accuracies
from mappa_env.benchmarking.coach.rows import Judged, Play, Row

GROUPS = {
    "all": lambda row: True,
    "file and code": lambda row: row.kind in ("file", "code"),
    "value": lambda row: row.kind == "value",
    "text": lambda row: row.kind == "text",
    "later turns": lambda row: row.turn > 0,
}  # fmt: skip
VICTIM = 1.0
"""Points that a later agent's score may fall without being counted as punished for another's fault."""


def summary(rows: Sequence[Row], agents: Sequence[str]) -> dict[str, Any]:
    """Figures by name. Shares and means carry their 95 % interval and the number of cases."""
    counted = [row for row in rows if not row.discarded]
    groups = {name: [row for row in counted if wanted(row)] for name, wanted in GROUPS.items()}
    return {
        "tried": len(rows),
        "counted": len(counted),
        "discarded": dict(Counter(row.discarded for row in rows if row.discarded)),
        "culprits": {agent: sum(row.agent == agent for row in counted) for agent in agents},
        "layouts": dict(Counter(map(layout, counted)).most_common()),
        "accuracy": {
            name: {
                method: {what: found._asdict() for what, found in pair.items()}
                for method, pair in accuracies(mine, len(agents)).items()
            }
            for name, mine in groups.items()
            if mine
        },
        "missed": missed(counted),
        "scores": scores(counted),
        "calibration": calibration(counted),
        "stability": stability(counted),
        "cost": cost(counted),
    }


def layout(row: Row) -> str:
    """The layout without names: whether the culprit itself has extra turns, or another agent."""
    who, _, what = row.layout.partition(" ")
    return what if who == row.agent else f"another {what}" if what else who


def missed(rows: Sequence[Row]) -> dict[str, int]:
    """What the coach did not name rightly, and what it named instead."""
    found = Counter[str]()
    for row in rows:
        assert row.faulty is not None
        play = row.faulty
        if play.step != row.step:
            other = "nobody" if play.step is None else f"{play.agent} turn {play.actions[play.step].turn}"
            found[f"{row.agent} turn {row.turn} {row.fault} ({layout(row)}) -> {other}"] += 1
    return dict(found.most_common())


def scores(rows: Sequence[Row]) -> dict[str, Any]:
    """``gap``: clean minus faulty score of the culprit's action. ``margin``: lowest score of another agent
    minus that of the culprit's action. ``innocence``: the share of later agents' actions that score no more
    than VICTIM below the same actions of the clean twin. ``false_alarm``: clean episodes with a culprit."""
    gaps, margins, innocent = [], [], []
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
            if action.agent != row.agent and action.score is not None and then is not None:
                innocent.append(float(action.score >= then - VICTIM))
    twins = [play for play, clean in episodes(rows) if clean]
    return {
        "gap": mean(gaps)._asdict(),
        "margin": mean(margins)._asdict(),
        "margin_positive": share([float(m > 0) for m in margins])._asdict(),
        "innocence": share(innocent)._asdict(),
        "false_alarm": share([float(play.agent is not None) for play in twins])._asdict(),
    }


def episodes(rows: Sequence[Row]) -> Iterator[tuple[Play, bool]]:
    """(episode, whether it is a clean twin); a twin of several cases comes once."""
    seen = set()
    for row in rows:
        assert row.faulty is not None
        assert row.clean is not None
        yield row.faulty, False
        key = (row.task, row.seed, row.layout)
        if key not in seen:
            seen.add(key)
            yield row.clean, True


def calibration(rows: Sequence[Row]) -> dict[str, Any]:
    """The mean score of an episode's actions against how it ended, over faulty episodes and clean twins: the
    score of the outcome for ``spearman``, else whether it ended well (clean twins did, faulty ones did not).
    """
    x, y, outcomes = [], [], []
    for play, clean in episodes(rows):
        found = [action.score for action in play.actions if action.score is not None]
        if found:
            x.append(sum(found) / len(found) / 10)
            y.append(clean)
            outcomes.append(play.outcome)
    bins, error = reliability(x, y)
    return {
        "episodes": len(x), "auc": auc(x, y), "spearman": spearman(x, outcomes),
        "ece": error, "bins": [found._asdict() for found in bins],
    }  # fmt: skip


def stability(rows: Sequence[Row]) -> dict[str, Any]:
    """The same evidence asked anew: standard deviation within actions, and how many got equal scores."""
    groups, lost = [], []
    for action in actions(rows):
        if action.again:
            answers = [action.score, *action.again]
            groups.append([score for score in answers if score is not None])
            lost.append(sum(score is None for score in answers) / len(answers))
    equal = [float(len(set(group)) == 1) for group in groups if len(group) > 1]
    return {
        "actions": len(groups), "sd": pooled_sd(groups), "equal": share(equal)._asdict(),
        "without_score": sum(lost) / len(lost) if lost else math.nan,
    }  # fmt: skip


def cost(rows: Sequence[Row]) -> dict[str, Any]:
    """Verdicts, by status; and what a model took for them, repeats too. ``dollars`` None: price not known."""
    found = list(actions(rows))
    usage = [each for a in found for each in ((a.usage, *a.again_usage) if a.usage else a.again_usage)]
    sums = {
        name: sum(each[name] or 0 for each in usage)
        for name in ("calls", "prompt", "cached", "output", "thoughts")
    }
    priced = [each["dollars"] for each in usage]
    asked = [float(each["seconds"] or 0) for each in usage if each["calls"]]
    verdicts = len(found) + sum(len(a.again) for a in found)
    return {
        "verdicts": verdicts,
        "status": {name: n / len(found) for name, n in Counter(a.status for a in found).items()},
        **sums,
        "dollars": None if not priced or None in priced else sum(each or 0.0 for each in priced),
        "latency_p50_s": percentile(asked, 50), "latency_p95_s": percentile(asked, 95),
    }  # fmt: skip


def actions(rows: Sequence[Row]) -> Iterator[Judged]:
    for play, _ in episodes(rows):
        yield from play.actions
