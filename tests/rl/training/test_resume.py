"""A run killed with SIGKILL at any moment goes on to what a run leaves that was left alone."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from killing import (
    ASYNC,
    DEMO,
    PHASES,
    SMOLLM2,
    STEPS,
    Moment,
    Run,
    draw,
    outcome,
    resume,
    run_killed,
    run_whole,
)
from mappa_env.trace import Traces
from mappa_rl.config import load_config
from mappa_rl.telemetry.sinks import read_metrics


def traced(out: Path) -> list[tuple[object, ...]]:
    """What the traces of the training steps say: every episode, and what was learned of it."""
    return [
        (recorded.about["step"], recorded.trajectory.seed, recorded.trajectory.actions, recorded.learned)
        for recorded in Traces(out / "traces" / "train")
    ]


@pytest.mark.parametrize("of", [DEMO, SMOLLM2], ids=["demo", "smollm2_lora"])
def test_what_is_killed_is_a_run_that_would_be_accepted(of: Run) -> None:
    """That of a real model takes minutes: only ``benchmarks/kill_resume.py --real`` carries it out."""
    assert load_config(of.recipe, of.overrides).run.steps == STEPS


@pytest.mark.slow
@pytest.mark.parametrize(
    "phases", [PHASES, pytest.param(PHASES[-1:], marks=pytest.mark.large)], ids=["any", "checkpoint"]
)
def test_a_killed_and_resumed_run_equals_the_uninterrupted_one(
    phases: tuple[str, ...], tmp_path: Path
) -> None:
    """Killed once, in any of these phases; ``benchmarks/kill_resume.py`` does 20."""
    times = run_whole(tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    assert len(expected[0]) == STEPS
    assert all(row[f"grad_norm/{policy}"] > 0 for row in expected[0] for policy in expected[1])
    episodes = traced(tmp_path / "whole")
    assert [step for step, *_ in episodes] == [step for step in range(1, STEPS + 1) for _ in range(8)]
    made = [each for *_, learned in episodes for each in learned.values()]
    assert any(each.advantage for each in made)
    assert all(len(each.action_ids) == len(each.logprobs) > 0 for each in made)
    rng = random.SystemRandom()
    phase = rng.choice(phases)
    moment = draw(times, phase, rng)
    out = tmp_path / phase
    run_killed(out, moment, [f"warmstart.path={tmp_path / 'whole' / 'warmstart'}"])
    resume(out)
    found = outcome(out)
    assert found[0] == expected[0], moment
    assert found[1] == expected[1], moment
    assert (out / "summary.json").is_file()
    assert (out / "report.html").is_file()
    assert [row[:2] for row in traced(out)] == [row[:2] for row in episodes], moment
    assert [row[3] for row in traced(out)] == [row[3] for row in episodes], moment


@pytest.mark.large
def test_a_killed_asynchronous_run_loses_no_episode_and_learns_from_none_twice(tmp_path: Path) -> None:
    rng = random.SystemRandom()
    moment = Moment(rng.choice(PHASES[:3]), rng.randrange(1, STEPS), 0.0)
    run_killed(tmp_path, moment, ASYNC)
    resume(tmp_path)
    rows = read_metrics(tmp_path)
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1)), moment
    assert {row["episodes"] for row in rows} == {8}
    assert max(row["staleness_max"] for row in rows) <= 1
    seeds = [seed for _, seed, *_ in traced(tmp_path)]
    assert len(seeds) == len(set(seeds)) == 8 * STEPS, moment
    state = json.loads((tmp_path / "checkpoints" / f"step-{STEPS:06}" / "state.json").read_text())
    assert state["rollouts"] == {"first": 8 * STEPS, "beyond": []}
