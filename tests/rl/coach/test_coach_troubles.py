"""A coach whose server stumbles: the console says so step by step, and a metric counts it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from fake_llm import Call, FakeServer, failing, ok, serving
from mappa_env.types import CallInfo, Outcome, Task, Trajectory, Verdict
from mappa_rl.cli import main
from mappa_rl.rollout.metrics import coach_troubles
from mappa_rl.telemetry.sinks import read_metrics
from recorded import recorded
from tiny_run import TINY

SMALL = (
    *TINY,
    "warmstart.episodes=12",
    "warmstart.steps=4",
    "rollout.episodes_per_step=4",
    "optim.minibatches=1",
    "run.steps=2",
)


def played(*verdicts: Verdict) -> Trajectory:
    actions = tuple(recorded(step=step, verdict=verdict) for step, verdict in enumerate(verdicts))
    return Trajectory("x", Task("t", "p", "exact_match"), 0, actions, Outcome(0.0, False, "ok", ""))


def asked(status: Any, calls: int, retries: int) -> Verdict:
    facts = CallInfo("m", "m-1", "t", "sha", calls=calls, retries=retries)
    return Verdict(status, 5.0 if status == "ok" else None, asked=facts)


def test_troubles_are_counted_in_one_line_and_silence_means_none() -> None:
    rubric = Verdict("error", None)
    assert coach_troubles([played(rubric, asked("ok", 1, 0), asked("abstain", 2, 0))]) == ""
    bad = played(asked("ok", 3, 2), asked("error", 2, 1), asked("ok", 1, 0), rubric)
    assert coach_troubles([bad]) == "coach: 3 of 6 calls were retries, 1 of 3 verdicts failed"
    never_sent = played(asked("error", 0, 0))
    assert coach_troubles([never_sent]) == "coach: 0 of 0 calls were retries, 1 of 1 verdicts failed"


@pytest.mark.slow
def test_a_run_says_how_many_calls_were_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = itertools.count(1)  # calls come from several threads: each gets a number of its own

    def stumbling(fake: FakeServer, call: Call) -> Any:
        return (failing(503) if next(numbers) % 4 == 0 else ok)(fake, call)

    with serving("openai", otherwise=stumbling) as fake:
        coach = f"env.coach={{name: 'openai:m@{fake.url}', base_s: 0.01}}"
        assert main(["train", "demo", coach, *SMALL, f"out={tmp_path / 'run'}"]) == 0
    said = re.findall(
        r"step (\d): coach: (\d+) of (\d+) calls were retries, 0 of \d+ verdicts failed",
        capsys.readouterr().out,
    )
    rows = read_metrics(tmp_path / "run")
    expected = [(row["step"], row["coach/retries"], row["coach/calls"]) for row in rows]
    assert [tuple(map(float, found)) for found in said] == expected
    assert all(0 < retries < calls for _, retries, calls in expected)
