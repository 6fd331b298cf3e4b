"""A run killed with SIGKILL at any step goes on to the same parameters and metrics as one left alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from mappa_rl.sinks import read_metrics

STEPS = 6
TINY = [
    "warmstart.episodes=60", "warmstart.steps=20", "warmstart.warmup_steps=2",
    "model.hidden=32", "model.layers=1", "model.mlp=64",
    "rollout.episodes_per_step=8", "rollout.max_new_tokens=16", "env.sandbox=calculator",
    "eval.episodes=9", "eval.calibration_episodes=4", "eval.calibration_temperatures=[0.5]",
    f"run.steps={STEPS}", "run.checkpoint_every=2", "run.tensorboard=false",
]  # fmt: skip
CLOCKS = ("time/", "tokens_per_s")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mappa_rl.cli", "train", *arguments]


def run(*arguments: str) -> None:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def kill_after_step(out: Path, step: int) -> None:
    """Start the run and SIGKILL it as soon as ``step`` is in its metrics."""
    process = subprocess.Popen(
        command("demo", f"out={out}", *TINY), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 240
        while time.monotonic() < until and process.poll() is None:
            if (out / "metrics.jsonl").is_file() and len(read_metrics(out)) >= step:
                break
            time.sleep(0.005)
        assert process.poll() is None, "the run ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()


def outcome(out: Path) -> tuple[list[dict[str, float]], dict[str, dict[str, bytes]]]:
    rows = [{k: v for k, v in row.items() if not k.startswith(CLOCKS)} for row in read_metrics(out)]
    final = out / "checkpoints" / f"step-{STEPS:06}"
    weights = {
        policy.name: {
            name: value.tobytes() for name, value in load_file(policy / "model" / "model.safetensors").items()
        }
        for policy in sorted((final / "policies").iterdir())
    }
    return rows, weights


@pytest.mark.slow
def test_a_killed_and_resumed_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    run("demo", f"out={tmp_path / 'whole'}", *TINY)
    step = random.SystemRandom().randint(1, STEPS - 2)
    kill_after_step(tmp_path / "killed", step)
    run("--resume", str(tmp_path / "killed"))
    expected, found = outcome(tmp_path / "whole"), outcome(tmp_path / "killed")
    assert len(expected[0]) == STEPS
    assert found[0] == expected[0], f"killed after step {step}"
    assert found[1] == expected[1], f"killed after step {step}"
    assert (tmp_path / "killed" / "summary.json").is_file()
    assert (tmp_path / "killed" / "report.html").is_file()
