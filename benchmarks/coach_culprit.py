"""Does the rubric coach name the agent that really spoiled an episode?

Every fault of the scripted teams is committed alone, by one agent, in a real episode; everybody else acts as
the expert does. The same episode (task and seed) is also played by the expert, which repairs that one fault.
Only episodes count where the repair changes the outcome: the fault lost the success, or at least a fifth of
the expert's score. A fault that did no harm has no culprit.

Baselines: ``first`` and ``last`` agent of the team, and ``failing one``: the first agent whose code failed or
that left a required file unwritten, else the last.

    python benchmarks/coach_culprit.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mappa_env.cards import read_card
from mappa_env.coach.culprit import culprit
from mappa_env.episode import Episode
from mappa_env.errors import SandboxWarning
from mappa_env.scripted import ScriptedTeam, load_script, make_team
from mappa_env.types import ActionRecord, Outcome, Team

REGISTRY = Path(__file__).resolve().parents[1] / "envs_registry"
HARM = 0.2
METHODS = ("rubric", "first", "last", "failing one")


@dataclass(frozen=True)
class Case:
    """One counted episode: who did it, what, and whom each method names."""

    card: str
    agent: str
    fault: str
    named: dict[str, str | None]
    guilty: float
    innocent: float
    """Scores (0-10): the culprit's worst action, and the worst action of all others."""


def play(episode: Episode, team: ScriptedTeam, seed: int) -> Outcome:
    episode.reset(seed=seed)
    team.reset(episode.task, seed)
    while episode.agent is not None:
        episode.act(team.act(episode.agent, episode.turn, episode.actions))
    assert episode.outcome is not None
    return episode.outcome


def failing_one(team: Team, actions: Sequence[ActionRecord]) -> str:
    written = {(a.agent, f.path) for a in actions if a.tool is not None for f in a.tool.files}
    for spec in team:
        mine = [action for action in actions if action.agent == spec.name]
        crashed = any(a.tool is not None and a.tool.status != "ok" for a in mine)
        if crashed or any((spec.name, path) not in written for path in spec.requires):
            return spec.name
    return team.names[-1]


def worst(actions: Sequence[ActionRecord]) -> float:
    return min((a.verdict.score for a in actions if a.verdict.score is not None), default=math.nan)


def cases_of(folder: str, sandbox: str, every: int, seed: int) -> tuple[int, list[Case]]:
    """(episodes played, those that count) for every ``every``-th single fault on the task of ``seed``."""
    card = read_card(REGISTRY / folder)
    assert card.scripted is not None
    episode = Episode(card, coach="rubric", sandbox=sandbox, prompts="compact")
    script, _ = load_script(card.scripted)
    clean = play(episode, make_team(card.scripted, "expert", style="compact"), seed)
    pairs = [(f"{role}_0", fault) for role, faults in script.faults.items() for fault in faults][::every]
    cases = []
    for agent, fault in pairs:
        team = make_team(card.scripted, "single", style="compact", agent=agent, fault=fault)
        outcome = play(episode, team, seed)
        lost = clean.success and not outcome.success
        if not lost and clean.score - outcome.score < HARM * max(clean.score, 1e-9):
            continue
        actions, names = episode.actions, card.team.names
        named = {
            "rubric": culprit(actions), "first": names[0], "last": names[-1],
            "failing one": failing_one(card.team, actions),
        }  # fmt: skip
        guilty = worst([a for a in actions if a.agent == agent])
        innocent = worst([a for a in actions if a.agent != agent])
        cases.append(Case(folder, agent, fault, named, guilty, innocent))
    episode.close()
    return len(pairs), cases


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z, p = 1.96, hits / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def accuracies(cases: Sequence[Case]) -> Iterator[tuple[str, float, float, float, float]]:
    """(method, share, its interval from low to high, mean of the shares per guilty agent)."""
    by_agent = defaultdict(list)
    for case in cases:
        by_agent[case.agent].append(case)
    for method in METHODS:
        right = [case.named[method] == case.agent for case in cases]
        per_agent = [sum(c.named[method] == c.agent for c in mine) / len(mine) for mine in by_agent.values()]
        low, high = wilson(sum(right), len(right))
        yield method, sum(right) / len(right), low, high, sum(per_agent) / len(per_agent)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer tasks, under a minute")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", SandboxWarning)
    plan = [
        ("mathchat", "calculator", 8 if options.quick else 100, 1),
        ("dsbench", "process", 2 if options.quick else 6, 6 if options.quick else 1),
    ]
    start, figures = time.perf_counter(), dict[str, object]()
    console = Console(width=100)
    for folder, sandbox, seeds, every in plan:
        with ThreadPoolExecutor(max_workers=2) as pool:
            results = list(pool.map(partial(cases_of, folder, sandbox, every), range(seeds)))
        played, cases = sum(n for n, _ in results), [case for _, found in results for case in found]
        figures[folder] = report(console, folder, played, cases)
    figures["seconds"] = round(time.perf_counter() - start, 1)
    console.print(f"{figures['seconds']} s")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def report(console: Console, folder: str, played: int, cases: Sequence[Case]) -> dict[str, object]:
    table = Table(title=f"{folder}: {len(cases)} of {played} single faults changed the outcome")
    for column in ("method", "culprit named", "95 % interval", "mean over guilty agents"):
        table.add_column(column, justify="left" if column == "method" else "right")
    rows = {}
    for method, share, low, high, balanced in accuracies(cases):
        table.add_row(method, f"{share:.1%}", f"{low:.1%} to {high:.1%}", f"{balanced:.1%}")
        rows[method] = {"accuracy": share, "low": low, "high": high, "balanced": balanced, "n": len(cases)}
    console.print(table)
    margin = sum(case.innocent - case.guilty for case in cases) / len(cases)
    console.print(f"fault margin (worst innocent action - worst guilty one, 0-10): {margin:.2f}")
    missed = defaultdict[str, int](int)
    for case in cases:
        if case.named["rubric"] != case.agent:
            missed[f"{case.agent} {case.fault} -> {case.named['rubric']}"] += 1
    for line, times in sorted(missed.items()):
        console.print(f"  missed {times}x: {line}")
    return {"played": played, "methods": rows, "fault_margin": margin, "missed": dict(missed)}


if __name__ == "__main__":
    sys.exit(main())
