"""Does the bias monitor find injected bias, and nothing else? SIMULATED coaches, with the real monitor.

Trajectories of three agents with three actions each, of two families, half of them successful. A score is
5 + 3 * (success - 1/2) + trajectory + action noise, standard deviation 2 in all, clustered within
trajectories (intraclass correlation ICC), kept within 0-10. Bias is injected into one family: an offset in
points, or a compression of the scores towards 5.

Reports, with 95 % intervals: the fraction of single tests, and of runs of 20 tests, with a false alarm; the
fraction of tests that find the injected bias, and which of the two tests does; how much of it each correction
removes; and alarms of anchors that a nondeterministic coach judges repeatedly.

    python benchmarks/coach_bias.py [--quick] [--workers N] [--json PATH] [--figure PATH]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mappa_env.coach.bias.drift import drifts
from mappa_env.coach.bias.monitor import BiasMonitor, trajectories_needed
from mappa_env.coach.bias.strata import BiasCorrection
from mappa_env.types import ActionRecord, Outcome, Task, Trajectory, Verdict

SD, GAIN, ICC = 2.0, 3.0, 0.3
AGENTS, TURNS = ("engineer_0", "modeler_0", "analyst_0"), 3
TASKS = (Task("a", "", "accuracy"), Task("b", "", "rmse"))
SHARED: dict[str, Any] = {
    "messages": (),
    "action": "",
    "thinking": "",
    "answer": "",
    "code": None,
    "tool": None,
    "reward": 0.0,
    "reward_valid": True,
    "seed": 0,
    "last_turn": False,
}
TESTS, STEP, WINDOW = 20, 64, 512
"""Tests of a run, trajectories between two of them, and the window of the monitor."""
CHUNK = 100
TRUE_SD = SD * math.sqrt(ICC + (1 - ICC) / (len(AGENTS) * TURNS))
"""Standard deviation of a trajectory's mean score at equal outcome, from trajectory and action noise."""
INJECTED: Mapping[str, Callable[[float], float]] = {
    "nothing": lambda score: score,
    "offset +0.5": lambda score: score + 0.5,
    "offset +1.0": lambda score: score + 1.0,
    "compression to half": lambda score: 5 + (score - 5) / 2,
}
Share = tuple[int, int]
"""How often, of how many."""


def trajectory(rng: np.random.Generator, number: int, icc: float, injected: str) -> Trajectory:
    """Make a trajectory; every second one is of the second family, which has the injected bias."""
    family, success = number % 2, bool(rng.random() < 0.5)
    common = 5 + GAIN * (success - 0.5) + rng.normal(0.0, SD * math.sqrt(icc))
    own = rng.normal(0.0, SD * math.sqrt(1 - icc), len(AGENTS) * TURNS).tolist()
    actions = []
    for step, noise in enumerate(own):
        agent, turn = AGENTS[step // TURNS], step % TURNS
        score = common + noise
        if family:
            score = INJECTED[injected](score)
        verdict = Verdict("ok", min(max(score, 0.0), 10.0))
        stratum = (TASKS[family].family, agent.removesuffix("_0"), turn)
        actions.append(
            ActionRecord(step=step, agent=agent, turn=turn, verdict=verdict, stratum=stratum, **SHARED)
        )
    return Trajectory(
        "bias", TASKS[family], number, tuple(actions), Outcome(float(success), success, "ok", "")
    )


def single_test(injected: str, icc: float, count: int, rng: np.random.Generator) -> dict[str, bool]:
    """The alarms of one test after ``count`` trajectories."""
    monitor = BiasMonitor(window=count)
    for number in range(count):
        monitor.add(trajectory(rng, number, icc, injected))
    found = {finding.kind: finding for finding in monitor.findings()}
    return {
        "offset": "offset" in found and found["offset"].alarm,
        "slope": "slope" in found and found["slope"].alarm,
        "any": any(finding.alarm for finding in found.values()),
    }


def run(injected: str, rng: np.random.Generator) -> dict[str, bool]:
    """Whether a run has an alarm: ever, by its 1st, 2nd, 5th and 10th test, and with uncorrected tests."""
    monitor, naive, first = BiasMonitor(window=WINDOW), False, TESTS + 1
    for number in range(TESTS * STEP):
        monitor.add(trajectory(rng, number, ICC, injected))
        if (number + 1) % STEP == 0:
            naive |= any(finding.alarm for finding in monitor.findings())
            if any(finding.alarm for finding in monitor.test()):
                first = min(first, (number + 1) // STEP)
    return {"any": first <= TESTS, "uncorrected": naive} | {f"by {k}": first <= k for k in (1, 2, 5, 10)}


def corrected(injected: str, correct: str, rng: np.random.Generator) -> dict[str, float]:
    """Remaining offset (points) and slope (fraction of the first family's), once strata are known."""
    correction, left, count = BiasCorrection(spread=correct == "mean_std"), [], 4096
    for start in range(0, count, 32):
        batch = [trajectory(rng, start + i, ICC, injected) for i in range(32)]
        scores = [(a.stratum, float(a.verdict.score or 0.0)) for each in batch for a in each.actions]
        fixed = [score for _, score in scores] if correct == "off" else correction(scores)
        per = len(AGENTS) * TURNS
        for i, each in enumerate(batch):
            if start >= count // 2 and each.outcome is not None:
                left.append((i % 2, each.outcome.success, float(np.mean(fixed[i * per : (i + 1) * per]))))
    mean = {
        (f, s): np.mean([score for family, success, score in left if (family, success) == (f, s)])
        for f in (0, 1)
        for s in (False, True)
    }
    offset = (mean[1, True] + mean[1, False] - mean[0, True] - mean[0, False]) / 2
    slope = (mean[1, True] - mean[1, False]) / (mean[0, True] - mean[0, False])
    return {"offset": float(offset), "slope": float(slope)}


def anchored(shift: float, rng: np.random.Generator) -> dict[str, bool]:
    """32 episodes of three actions, graded in steps of 1.25 points; a judgement varies by 0.7 points."""
    true = rng.uniform(2, 8, (32, 3))

    def judged(shift: float) -> list[list[float]]:
        grades = np.round((true + shift + rng.normal(0, 0.7, true.shape)) / 1.25) * 1.25
        return np.clip(grades, 0, 10).tolist()  # type: ignore[no-any-return]

    alarms, first = [], judged(0.0)
    for number in range(1, TESTS + 1):
        pairs = [
            [(("math", role, 0), a, b) for role, a, b in zip(AGENTS, old, new, strict=True)]
            for old, new in zip(first, judged(shift), strict=True)
        ]
        alarms.append(any(drift.alarm for drift in drifts(pairs, number)))
    return {"any": any(alarms), "by 1": alarms[0], "by 5": any(alarms[:5])}


def repeat(play: Callable[[np.random.Generator], Any], chunk: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Call ``play`` repeatedly. ``chunk``: index of the case, index of the chunk, number of calls."""
    rng = np.random.default_rng(chunk)
    return [play(rng) for _ in range(chunk[2])]


class Simulation:
    """Plays cases on several processes; their number does not change the figures."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool, self._cases = pool, 0

    def results(self, play: Callable[[np.random.Generator], Any], times: int) -> list[dict[str, Any]]:
        self._cases += 1
        sizes = [min(CHUNK, times - start) for start in range(0, times, CHUNK)]
        seeds = [(self._cases, chunk, size) for chunk, size in enumerate(sizes)]
        return [one for part in self._pool.map(partial(repeat, play), seeds) for one in part]

    def shares(self, play: Callable[[np.random.Generator], Any], times: int) -> dict[str, Share]:
        found = self.results(play, times)
        return {name: (sum(one[name] for one in found), times) for name in found[0]}


def interval(share: Share) -> tuple[float, float, float]:
    """The fraction with its 95 % Wilson interval."""
    k, n = share
    z, p = 1.96, k / n
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return p, (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)


def shown(share: Share) -> str:
    p, low, high = interval(share)
    return f"{p:.1%} [{low:.1%}, {high:.1%}]"


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], console: Console) -> None:
    made = Table(title=title, title_justify="left")
    for column in columns:
        made.add_column(column, justify="left" if column in ("injected", "correction") else "right")
    for row in rows:
        made.add_row(*row)
    console.print(made)


def simulate(simulation: Simulation, scale: float, console: Console) -> dict[str, Any]:
    """All figures by name. ``scale``: fraction of the repeats of a full run."""
    needed = trajectories_needed(0.5, TRUE_SD)
    figures: dict[str, Any] = {"needed": needed}
    cases = [
        *(
            ("nothing", icc, n, 10000 if icc == ICC else 2000)
            for icc in (0.0, ICC, 0.6)
            for n in (32, needed)
        ),
        *(("offset +0.5", ICC, n, 1000) for n in (64, 128, needed, 384, 512)),
        *(("offset +1.0", ICC, n, 1000) for n in (32, 64, 128, needed)),
        *(("compression to half", ICC, n, 1000) for n in (32, 64, 128, needed)),
    ]
    tests = {}
    for injected, icc, count, times in cases:
        play = partial(single_test, injected, icc, count)
        tests[f"{injected}/{icc:g}/{count}"] = simulation.shares(play, math.ceil(times * scale))
    table(
        f"single tests; {needed} trajectories are named for an offset of 0.5 points",
        ("injected", "ICC", "trajectories", "tests", "offset alarm", "slope alarm", "any alarm"),
        (
            (*name.split("/"), str(found["any"][1]), *map(shown, found.values()))
            for name, found in tests.items()
        ),
        console,
    )
    runs = {
        name: simulation.shares(partial(run, name), math.ceil(times * scale))
        for name, times in (("nothing", 2000), ("offset +0.5", 250), ("compression to half", 250))
    }
    table(
        f"runs of {TESTS} tests, {STEP} trajectories apart, at the last {WINDOW}: fraction with an alarm",
        ("injected", "runs", "ever", "tests not corrected", "by test 1", "2", "5", "10"),
        ((name, str(found["any"][1]), *map(shown, found.values())) for name, found in runs.items()),
        console,
    )
    left: dict[str, dict[str, list[float]]] = {}
    for injected in ("offset +0.5", "offset +1.0", "compression to half"):
        for correct in ("off", "mean", "mean_std"):
            found = simulation.results(partial(corrected, injected, correct), max(round(20 * scale), 4))
            left[f"{injected}/{correct}"] = {k: [one[k] for one in found] for k in found[0]}
    table(
        "left after correction, once 2,048 trajectories are known (means and 95 % intervals of repeats)",
        ("injected", "correction", "offset, points", "slope, share of the other family's"),
        (
            (*name.split("/"), *(f"{m:+.3f} ± {w:.3f}" for m, w in map(spread, found.values())))
            for name, found in left.items()
        ),
        console,
    )
    anchors = {
        f"{s:+.1f}": simulation.shares(partial(anchored, s), math.ceil(4000 * scale)) for s in (0.0, 0.5, 1.0)
    }
    table(
        f"anchors: 32 episodes, judged again {TESTS} times, fraction of runs with an alarm",
        ("drift, points", "runs", "ever", "by time 1", "5"),
        ((name, str(found["any"][1]), *map(shown, found.values())) for name, found in anchors.items()),
        console,
    )
    return figures | {"tests": tests, "runs": runs, "left": left, "anchors": anchors}


def spread(values: list[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval."""
    return float(np.mean(values)), 1.96 * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def draw(figures: Mapping[str, Any], path: Path) -> None:
    """False alarms, power and what corrections leave, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "bias", "font.size": 9, "axes.grid": True}
    plt.rcParams |= {"axes.spines.top": False, "axes.spines.right": False, "grid.color": "#eeeeee"}
    figure, (alarms, power, rest) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    shares = {
        f"ICC {name.split('/')[1]}, {name.split('/')[2]} trajectories": found["any"]
        for name, found in figures["tests"].items()
        if name.startswith("nothing")
    }
    shares[f"a run of {TESTS} tests"] = figures["runs"]["nothing"]["any"]
    for row, share in enumerate(reversed(shares.values())):
        p, low, high = (100 * value for value in interval(share))
        alarms.errorbar(p, row, xerr=[[p - low], [high - p]], fmt="o", color="#0072B2", capsize=3)
    alarms.axvline(5, color="#D55E00", linewidth=1)
    alarms.set_yticks(range(len(shares)), list(reversed(shares)))
    alarms.set_xlim(left=0)
    alarms.set(title="False alarms, %")
    lines = (
        ("offset +0.5", "offset", "#0072B2"),
        ("offset +1.0", "offset", "#56B4E9"),
        ("compression to half", "slope", "#D55E00"),
    )
    for injected, kind, colour in lines:
        points = [
            (int(name.split("/")[2]), interval(found[kind]))
            for name, found in figures["tests"].items()
            if name.startswith(injected)
        ]
        x, (mean, low, high) = [n for n, _ in points], zip(*(share for _, share in points), strict=True)
        power.plot(x, [100 * v for v in mean], marker="o", color=colour, label=injected)
        power.fill_between(x, [100 * v for v in low], [100 * v for v in high], color=colour, alpha=0.2)
    power.axvline(figures["needed"], color="#999999", linewidth=1, linestyle="--")
    power.axhline(80, color="#999999", linewidth=1, linestyle="--")
    power.set(ylim=(0, 102), xlabel="trajectories", title="Found in one test, % (ICC 0.3)")
    power.legend(frameon=False, loc="lower right")
    bars = (("offset +1.0", "offset"), ("compression to half", "slope"))
    for at, (injected, kind) in enumerate(bars):
        for shift, (correct, colour) in enumerate(
            {"off": "#999999", "mean": "#56B4E9", "mean_std": "#0072B2"}.items()
        ):
            value, width = spread(figures["left"][f"{injected}/{correct}"][kind])
            value = 1 - value if kind == "slope" else value
            rest.bar(
                at + (shift - 1) * 0.25,
                value,
                0.22,
                yerr=width,
                color=colour,
                label=correct if not at else None,
            )
    rest.set_xticks(
        range(len(bars)), ["offset +1.0:\npoints left", "compression to half:\nshare of the slope lost"]
    )
    rest.set_title("Left after correction")
    rest.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a twentieth of the repeats: about a minute")
    parser.add_argument("--workers", type=int, default=2, help="processes; they do not change the figures")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--figure", type=Path, metavar="PATH", help="draw them here (.svg, .png)")
    args = parser.parse_args()
    with ProcessPoolExecutor(args.workers) as pool:
        figures = simulate(Simulation(pool), 0.05 if args.quick else 1.0, Console(width=180))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if args.figure:
        draw(figures, args.figure)


if __name__ == "__main__":
    main()
