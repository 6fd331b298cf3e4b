"""Which charts a report shows: what the metrics and evaluations of its runs have to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mappa_rl.evaluation.arms import rate
from mappa_rl.evaluation.results import Result
from mappa_rl.report.figures import Bands, Chart, Curve, Marks, Point, TopicRate, bands, curves
from mappa_rl.report.groups import Group
from mappa_rl.report.runs import RunData, metric_names
from mappa_rl.report.style import svg, variable_of

HEALTH = {
    "reference_kl": "KL to the warm start, nats",
    "kl": "KL of one step, nats",
    "entropy": "entropy, nats",
    "clip_fraction": "fraction of clipped tokens",
    "grad_norm": "gradient norm",
    "mismatch": "sampler-learner mismatch, nats",
}
"""Metrics by policy that the learner reports, with the titles of their panels."""
Lines = dict[str, dict[str, list[Curve]]]


@dataclass(frozen=True, slots=True)
class Key:
    """A line's entry in a legend; ``variable`` is the CSS variable of its colour."""

    label: str
    variable: str


@dataclass(frozen=True, slots=True)
class ChartBlock:
    """A chart as markup: its name, its caption, its legend (empty for one line) and its panels."""

    name: str
    caption: str
    keys: Sequence[Key]
    panels: Sequence[str]


def chart_blocks(groups: Sequence[Group]) -> list[ChartBlock]:
    """Every chart there is something to draw for, in the page's order."""
    found = []
    for name, make, caption in _CHARTS:
        chart = make(groups)
        if chart is not None:
            keys = [Key(label, variable_of(i)) for i, label in enumerate(chart.labels)]
            panels = [svg(figure, f"{name}-{i}") for i, figure in enumerate(chart.figures)]
            found.append(ChartBlock(name, caption, keys if len(keys) > 1 else (), panels))
    return found


def topic_rates(group: Group) -> tuple[list[TopicRate], float]:
    """Held-out success by topic, all seeds, and the temperature it was measured at: the highest fixed one."""
    temperature = max(group.runs[0].config.eval.temperatures)
    counts: dict[str, list[int]] = {}
    for run in group.runs:
        phases = [run.results.get((phase, temperature), ()) for phase in ("before", "after")]
        if not all(phases):
            continue
        for column, results in enumerate(phases):
            for result in results:
                cell = counts.setdefault(result.topic, [0, 0, 0])
                cell[column] += result.success
                cell[2] += column
    return [
        TopicRate(topic, old / n, new / n, n) for topic, (old, new, n) in counts.items() if n
    ], temperature


def evaluations(groups: Sequence[Group]) -> Marks:
    """Held-out success at the highest fixed temperature: before (step 0), during and after training."""
    found: dict[str, list[Point]] = {}
    for group in groups:
        rows: dict[int, list[Result]] = {}
        for run in group.runs:
            temperature = max(run.config.eval.temperatures)
            for (phase, at), results in run.results.items():
                if at == temperature:
                    rows.setdefault(_step(phase, run), []).extend(results)
        for step, results in sorted(rows.items()):
            won = rate(results)
            found.setdefault(_line_label(group), []).append(Point(step, won.mean, won.low, won.high))
    return found


def _step(phase: str, run: RunData) -> int:
    if phase.startswith("step-"):
        return int(phase.removeprefix("step-"))
    return 0 if phase == "before" else run.config.run.steps


def _line_label(group: Group) -> str:
    return group.label or "all runs"


def _success(groups: Sequence[Group]) -> Chart | None:
    lines = _lines(groups, {"success": "training success; diamonds: held-out"})
    return curves(lines, limits=(0, 1), marks=evaluations(groups), banded=len(groups) > 1) if lines else None


def _rewards(groups: Sequence[Group]) -> Chart | None:
    lines = _lines(groups, _titles(groups, "reward/"))
    return curves(lines, limits=(0, _top(lines)), banded=len(groups) > 1) if lines else None


def _strata(groups: Sequence[Group]) -> Chart | None:
    """Only strata that say more than agents do: of roles with several families, or several turns."""
    titles = _titles(groups, "stratum/")
    roles = Counter(_role(title) for title in titles.values())
    lines = _lines(groups, {name: title for name, title in titles.items() if roles[_role(title)] > 1})
    return curves(lines, limits=(0, _top(lines)), banded=len(groups) > 1) if lines else None


def _role(stratum: str) -> str:
    """The role of ``family/role/turn``."""
    return stratum.split("/")[1]


def _scores(groups: Sequence[Group]) -> Chart | None:
    """Role -> family (as given, and as corrected); only where families or corrections can be compared."""
    found: Lines = {}
    for prefix, suffix in (("score/", ""), ("score_corrected/", ", corrected")):
        for name in metric_names([run for group in groups for run in group.runs], prefix):
            _, family, role = name.split("/")
            for group in groups:
                label = ", ".join(part for part in (f"{family}{suffix}", group.label) if part)
                curves_: list[Curve] = [curve for run in group.runs if (curve := run.curve(name))]
                if curves_:
                    found.setdefault(role, {}).setdefault(label, []).extend(curves_)
    if not any(len(lines) > len(groups) for lines in found.values()):
        return None
    return curves(found, limits=(0, _top(found)), banded=len(groups) > 1)


def _bias(groups: Sequence[Group]) -> Chart | None:
    found = _bands(groups, "bias", lambda parts: (f"{parts[0]}, points", parts[1]))
    return bands(found) if found else None


def _anchors(groups: Sequence[Group]) -> Chart | None:
    found = _bands(groups, "anchors", lambda parts: ("/".join(parts), "drift"))
    return bands(found) if found else None


def _topics(groups: Sequence[Group]) -> Chart | None:
    """Only for several topics: the curve of an only one is that of success."""
    lines = _lines(groups, _titles(groups, "success/"))
    return curves(lines, limits=(0, 1), banded=len(groups) > 1) if len(lines) > 1 else None


def _health(groups: Sequence[Group]) -> Chart | None:
    """One panel per metric: a line per policy, or per group where there are several."""
    found: Lines = {}
    for kind, title in HEALTH.items():
        for name in _titles(groups, f"{kind}/"):
            for label, lines in _lines(groups, {name: title}).get(title, {}).items():
                own = label if len(groups) > 1 else name.split("/", 1)[1]
                found.setdefault(title, {}).setdefault(own, []).extend(lines)
    return curves(found) if found else None


_CHARTS: Sequence[tuple[str, Callable[[Sequence[Group]], Chart | None], str]] = (
    (
        "success",
        _success,
        "Lines: success of training episodes, averaged over neighbouring steps. Diamonds: success on "
        "held-out tasks at the highest fixed temperature, with 95 % intervals.",
    ),
    (
        "rewards",
        _rewards,
        "Mean reward of an action (0-10) by agent. Other shapings reward other things, so compare rewards "
        "only within one shaping.",
    ),
    ("strata", _strata, "Mean reward by stratum (task family, role, turn), before corrections."),
    (
        "scores",
        _scores,
        "Mean score of the coach (0-10) by role and task family, and what scores were corrected to.",
    ),
    (
        "bias",
        _bias,
        "Is the coach equally strict? Offset: what a family gets more than the others at equal outcome. "
        "Slope: how much more its scores rise from failure to success. Bands: 95 % intervals of one test.",
    ),
    (
        "anchors",
        _anchors,
        "Has the coach drifted? The same actions judged again: mean difference to their first scores, in "
        "points, with 95 % intervals.",
    ),
    ("topics", _topics, "Success of training episodes by topic."),
    (
        "health",
        _health,
        "The learner's health, by policy: divergences and entropy per token, the fraction of tokens whose "
        "ratio is clipped, the gradient norm before clipping, and how far sampler and learner disagree.",
    ),
)


def _titles(groups: Sequence[Group], prefix: str) -> dict[str, str]:
    """Metric name -> panel title."""
    runs = [run for group in groups for run in group.runs]
    return {name: name.removeprefix(prefix) for name in metric_names(runs, prefix)}


def _lines(groups: Sequence[Group], shown: dict[str, str]) -> Lines:
    """One panel per metric, with one line per group and one curve per run."""
    found: Lines = {}
    for name, title in shown.items():
        for group in groups:
            mine: list[Curve] = [curve for run in group.runs if (curve := run.curve(name))]
            if mine:
                found.setdefault(title, {})[_line_label(group)] = mine
    return found


def _top(lines: Lines) -> float:
    most = max(y for panel in lines.values() for group in panel.values() for run in group for _, y in run)
    return max(1.05 * most, 1e-6)


def _bands(groups: Sequence[Group], prefix: str, place: Callable[[Sequence[str]], tuple[str, str]]) -> Bands:
    """Metrics ``<prefix>/<parts>`` with their ``<prefix>_low`` and ``<prefix>_high``.

    ``place(parts)`` gives the title of the panel and the label of the line.
    """
    found: dict[str, dict[str, list[list[Point]]]] = {}
    for low in metric_names([run for group in groups for run in group.runs], f"{prefix}_low/"):
        parts = low.split("/")[1:]
        names = ["/".join((start, *parts)) for start in (prefix, f"{prefix}_low", f"{prefix}_high")]
        title, line = place(parts)
        for group in groups:
            label = ", ".join(part for part in (line, group.label) if part)
            for run in group.runs:
                points = [
                    Point(row["step"], *(row[name] for name in names))
                    for row in run.metrics
                    if names[0] in row
                ]
                if points:
                    found.setdefault(title, {}).setdefault(label, []).append(points)
    return found
