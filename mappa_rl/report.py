"""``report.html``: one file that shows what a run, or several together, came to. Opens anywhere, offline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from mappa_rl.runs import RunData, find_runs, headline, read_run, variants, versus_first
from mappa_rl.showcase import showcase
from mappa_rl.stopwatch import KINDS
from mappa_rl.tables import measure, measured, measures_caption

REPORT = "report.html"
TEMPLATE = "report.html.jinja"
TRAINING = (
    ("success", "Share of training episodes that succeed. Thin: seeds; thick: running mean over them."),
    ("rewards", "Mean reward of an action (0-10), by agent, as paid: other shapings pay for other things."),
    ("strata", "Mean reward by stratum: family of the task's metric, role, turn; before corrections."),
    (
        "scores",
        "Mean score of the coach (0-10), by role and family of the task's metric; where scores are "
        "corrected, also what they were corrected to.",
    ),
    (
        "bias",
        "Is the coach equally strict? Offset: what a family gets more than the others at equal outcome. "
        "Slope: how much more its scores rise from failure to success. Bands: 95 % intervals of one look.",
    ),
    (
        "anchors",
        "Does the coach still judge as it did? The same actions judged anew: mean difference to their first "
        "scores, in points, with 95 % intervals.",
    ),
    ("topics", "Success of training episodes, by topic."),
    (
        "health",
        "What the learner watches, by policy and per token: divergences and entropy in nats, the share of "
        "tokens whose ratio is clipped, the gradient's norm before clipping, and how far sampler and learner "
        "disagree.",
    ),
)
HEALTH = {
    "reference_kl": "KL to the warm start",
    "kl": "KL of one step",
    "entropy": "entropy",
    "clip_fraction": "clipped share",
    "grad_norm": "gradient norm",
    "mismatch": "sampler against learner",
}
"""Metrics by policy that the learner reports, with the titles of their panels; KL and entropy are in nats."""


def build_report(folders: Path | Sequence[Path], out: Path | None = None) -> Path:
    """Write the report of one run, or of several seeds and reward shapings together, and return its path.

    A folder that holds runs stands for all of them. ``out`` defaults to ``report.html`` in the (first) folder
    given. Raises RunError.
    """
    given = [folders] if isinstance(folders, Path) else list(folders)
    runs = [read_run(folder) for folder in find_runs(given)]
    order = variants(runs)
    runs.sort(key=lambda run: (order.index(run.variant), run.seed))
    path = out or given[0] / REPORT
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # agents write hostile text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(TEMPLATE).render(_context(runs))
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def _context(runs: Sequence[RunData]) -> dict[str, Any]:
    first, rows = runs[0], headline(runs)
    done = [run.summary for run in runs if run.summary is not None]
    faults = done[0].faults if done else []
    figures, topic_caption = _figures(runs)
    seeds = [str(run.seed) for run in runs]
    wall = sum(summary.wall_seconds for summary in done)
    return {
        "title": f"{first.config.env.id}: a team before and after training",
        "subtitle": " · ".join(
            [
                f"{' and '.join(variants(runs))} rewards",
                f"{first.config.algo.name} ({first.config.algo.mode})",
                f"seed{'' if len(set(seeds)) == 1 else 's'} {', '.join(dict.fromkeys(seeds))}",
                f"{duration(wall)} of work",
            ]
        ),
        "unfinished": [str(run.folder) for run in runs if run.summary is None],
        "rows": rows,
        "several": len(variants(runs)) > 1,
        "pooled": any(row.seed is None for row in rows),
        "measured": [
            (row, name, measure(m.before), measure(m.after), measure(m.delta, signed=True))
            for row, name, m in measured(rows)
        ],
        "measures_caption": measures_caption(rows),
        "versus": versus_first(runs),
        "calibration": {
            run.seed: run.summary.calibration for run in runs if run.summary and run.summary.calibration
        },
        "faults": faults,
        "demonstrated": _demonstrated(first),
        "habits": sum(fault.topic != "*" for fault in faults),
        "cells": len(_topics(runs)) * len({fault.role for fault in faults if fault.topic == "*"}),
        "figures": figures,
        "topic_caption": topic_caption,
        "training": TRAINING,
        "has_curves": any(figures[key] for key, _ in TRAINING),
        "pairs": showcase(first.folder),
        "made": [_made(run, runs) for run in runs],
        "phases": _phases(runs),
        "kinds": KINDS,
        "shares": [run.summary.shares if run.summary else {} for run in runs],
        "versions": done[0].versions if done else {},
        "config": first.config.dump(),
    }


def _demonstrated(run: RunData) -> float | None:
    """Success of the demonstrated team, where the warm start has it on record."""
    folder = Path(run.config.warmstart.path) if run.config.warmstart.path else run.folder / "warmstart"
    path = folder / "demonstrations.json"
    return float(json.loads(path.read_bytes())["success"]) if path.is_file() else None


def _topics(runs: Sequence[RunData]) -> list[str]:
    found = [result.topic for run in runs for rows in run.results.values() for result in rows]
    return sorted(set(found))


def _figures(runs: Sequence[RunData]) -> tuple[dict[str, str], str]:
    """Figures by name (empty where there is nothing to draw), and the caption of the one by topic."""
    from mappa_rl.figures import before_after, curves, svg
    from mappa_rl.figures_bias import bias_figures

    found = {key: "" for key, _ in TRAINING} | {"topics_held_out": ""}
    success = panels(runs, {"success": "success"})
    if success:
        found["success"] = svg(curves(success, share=(0, 1)), "success")
    rewards = panels(runs, {n: n.removeprefix("reward/") for n in names(runs, "reward/")})
    if rewards:
        top = max(
            y for lines in rewards.values() for group in lines.values() for run in group for _, y in run
        )
        found["rewards"] = svg(curves(rewards, share=(0, max(top * 1.05, 1e-6))), "rewards")
    strata = panels(runs, {n: n.removeprefix("stratum/") for n in names(runs, "stratum/")})
    if strata:
        found["strata"] = svg(curves(strata, columns=4), "strata")
    found |= {name: svg(figure, name) for name, figure in bias_figures(runs).items()}
    topics = panels(runs, {n: n.removeprefix("success/") for n in names(runs, "success/")})
    if topics:
        found["topics"] = svg(curves(topics, columns=4, share=(0, 1)), "topics")
    health = _health(runs)
    if health:
        found["health"] = svg(curves(health), "health")
    rates, temperature = _rates(runs)
    caption = ""
    if rates:
        found["topics_held_out"] = svg(before_after(rates), "held-out")
        caption = f"Held-out success by topic at T={temperature}, {variants(runs)[0]} rewards, all seeds."
    return found, caption


def names(runs: Sequence[RunData], prefix: str) -> list[str]:
    """Names of metrics that begin with ``prefix``, in order of appearance."""
    return list(dict.fromkeys(n for run in runs for row in run.metrics for n in row if n.startswith(prefix)))


def panels(
    runs: Sequence[RunData], shown: Mapping[str, str]
) -> dict[str, dict[str, list[list[tuple[int, float]]]]]:
    """Metric name -> panel title, as panels with one line per variant and one curve per run."""
    found: dict[str, dict[str, list[list[tuple[int, float]]]]] = {}
    for name, title in shown.items():
        for run in runs:
            curve = [(row["step"], row[name]) for row in run.metrics if row.get(name) is not None]
            if curve:
                found.setdefault(title, {}).setdefault(run.variant, []).append(curve)
    return found


def _health(runs: Sequence[RunData]) -> dict[str, dict[str, list[list[tuple[int, float]]]]]:
    """One panel per figure the learner watches: a line per policy, or per variant where there are several."""
    several = len(variants(runs)) > 1
    found: dict[str, dict[str, list[list[tuple[int, float]]]]] = {}
    for kind, title in HEALTH.items():
        for name in names(runs, f"{kind}/"):
            for variant, lines in panels(runs, {name: title}).get(title, {}).items():
                label = variant if several else name.split("/", 1)[1]
                found.setdefault(title, {}).setdefault(label, []).extend(lines)
    return found


def _rates(runs: Sequence[RunData]) -> tuple[dict[str, tuple[float, float, int]], float]:
    """Topic -> (before, after, episodes) of the first variant at its highest temperature, all seeds."""
    members = [run for run in runs if run.variant == variants(runs)[0]]
    temperature = max(members[0].config.eval.temperatures)
    counts: dict[str, list[int]] = {}
    for run in members:
        phases = [run.results.get((phase, temperature), ()) for phase in ("before", "after")]
        if not all(phases):
            continue
        for column, results in enumerate(phases):
            for result in results:
                cell = counts.setdefault(result.topic, [0, 0, 0])
                cell[column] += result.success
                cell[2] += column
    return {topic: (old / n, new / n, n) for topic, (old, new, n) in counts.items() if n}, temperature


def _made(run: RunData, runs: Sequence[RunData]) -> dict[str, Any]:
    label = f"seed {run.seed}" if len(variants(runs)) == 1 else f"{run.variant}, seed {run.seed}"
    summary = run.summary
    return {
        "folder": run.folder.name, "seed": run.seed, "variant": run.variant, "label": label,
        "episodes": f"{summary.episodes:,}" if summary else "-",
        "wall": duration(summary.wall_seconds) if summary else "-",
    }  # fmt: skip


def _phases(runs: Sequence[RunData]) -> dict[str, list[str]]:
    order = dict.fromkeys(name for run in runs if run.summary for name in run.summary.phases)
    return {
        name: [
            duration(run.summary.phases[name]) if run.summary and name in run.summary.phases else "-"
            for run in runs
        ]
        for name in order
    }


def duration(seconds: float) -> str:
    """``75 s``, ``12 min 30 s``, ``3 h 05 min``"""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
