"""Whole pipelines of the scripted DSBench teams, run in forks of one warm interpreter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from mappa_env.grading.submission import grade_submission
from mappa_env.parsing import parse
from mappa_env.scripted import make_team
from mappa_env.types import Outcome, Task
from probing import look
from warm_runner import run_warm

AGENTS = ("engineer_0", "modeler_0", "analyst_0")


class Play(NamedTuple):
    task: Task
    exits: list[int]
    outputs: list[str]
    facts: dict[str, Any]
    outcome: Outcome
    files: set[str]


def play_all(
    root: Path, cases: dict[str, tuple[Task, str, str, str]], script: str = "dsbench"
) -> dict[str, Play]:
    """``cases``: name -> (task, style, faulty agent, its fault)."""
    jobs = []
    for name, (task, style, agent, fault) in cases.items():
        folder = root / name / "ws"
        folder.mkdir(parents=True)
        for file, content in task.files.items():
            assert isinstance(content, bytes)
            (folder / file).write_bytes(content)
        team = (
            make_team(script, "single", style=style, agent=agent, fault=fault)
            if fault
            else make_team(script, style=style)
        )
        team.reset(task, seed=5)
        codes = [parse(team.act(agent, 0, ())).code for agent in AGENTS]
        jobs.append({"folder": str(folder), "codes": codes})
    run_warm(jobs)
    plays = {}
    for name, (task, *_) in cases.items():
        base = root / name
        outputs = [(base / f"out{i}").read_text() for i in range(3)]
        submission = base / "ws" / "submission.csv"
        outcome = grade_submission(task, submission.read_bytes() if submission.exists() else b"")
        facts = look(base / "ws")
        exits = [int((base / f"exit{i}").read_text()) for i in range(3)]
        plays[name] = Play(task, exits, outputs, facts, outcome, set(os.listdir(base / "ws")))
    return plays
