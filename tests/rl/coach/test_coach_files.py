"""A run with a language model as its coach keeps what it said and cost, and can be played again from that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fake_llm as fakes
from mappa_rl.coach.files import with_coach_files
from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.folder import drop_results
from mappa_rl.training.trainer import train
from tiny_run import TINY

SMALL = [
    *TINY,
    "warmstart.episodes=30",
    "warmstart.steps=3",
    "rollout.episodes_per_step=4",
    "rollout.max_new_tokens=8",
]


def run(out: Path, coach: Any, steps: int) -> list[dict[str, float]]:
    config = load_config("demo", [*SMALL, f"run.steps={steps}", f"env.coach={json.dumps(coach)}"])
    drop_results(out)  # as the command does where the end of a run moves
    train(config, out, resume=True)
    rows = read_metrics(out)
    spared = ("time/", "tokens_per_s", "coach/calls", "coach/retries", "coach/cached")  # a replay asks nobody
    return [{k: v for k, v in row.items() if not k.startswith(spared)} for row in rows]


@pytest.mark.slow
def test_a_resumed_run_keeps_its_sum_and_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    out, ledger = tmp_path / "run", tmp_path / "run" / "coach" / "ledger.jsonl"
    grade = lambda call, name: len(call.text) % 5  # noqa: E731
    with fakes.serving("openai", grade=grade) as server:
        coach = f"openai:m@{server.url}"
        run(out, coach, steps=1)
        asked = len(server.calls) - 1  # the test call before the first second of work
        assert 0 < asked == len(ledger.read_text().splitlines())
        rows = run(out, coach, steps=2)
        assert asked < len(server.calls) - 2 == len(ledger.read_text().splitlines())
    assert load_config(out / CONFIG).env.coach == coach  # a copy of it is no share in this run's cache
    replay = f"replay:{out / 'coach' / 'calls.sqlite'}"
    assert run(tmp_path / "again", replay, steps=2) == rows
    assert len(rows) == 2


@pytest.mark.parametrize("coach", ["rubric", "off", "replay:x.sqlite", "mine.py:Mine"])
def test_other_coaches_have_no_such_files(coach: str, tmp_path: Path) -> None:
    config = Config().with_overrides([f"env.coach={coach}"])
    assert with_coach_files(config, tmp_path) is config


def test_what_the_user_says_stays(tmp_path: Path) -> None:
    spec = {"name": "gemini:m", "cache": None, "budget": 3}
    found = with_coach_files(Config().with_overrides([f"env.coach={json.dumps(spec)}"]), tmp_path).env.coach
    assert found == {**spec, "ledger": str(tmp_path / "coach" / "ledger.jsonl")}
