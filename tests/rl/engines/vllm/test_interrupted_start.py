"""A signal while the engines of several policies start side by side: every process ends, and soon."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from engine_helpers import needs_vllm
from tiny_run import TINY

SIZES = [*TINY, "engine.name=vllm", "engine.kv_cache_mb=32", "policies.map=separate", "run.steps=1"]
"""Three engines."""


def engines_of(run: psutil.Process) -> set[psutil.Process]:
    """The processes of engines, also of those that Python has only just begun."""
    found = set()
    with suppress(psutil.NoSuchProcess):
        for each in run.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if any(mark in " ".join(each.cmdline()) for mark in ("spawn_main", "VLLM::")):
                    found.add(each)
    return found


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


@needs_vllm
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "begun"),
    [pytest.param(signal.SIGINT, 1, marks=pytest.mark.large), (signal.SIGTERM, 3)],
)
def test_no_engine_outlives_a_run_that_is_interrupted_while_they_start(
    number: signal.Signals, begun: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "mappa_rl.cli", "train", "demo", *SIZES, f"out={tmp_path / 'run'}"]
    with (tmp_path / "shown").open("w") as shown:
        process = subprocess.Popen(command, stdout=shown, stderr=subprocess.STDOUT, process_group=0)
    run, seen, until = psutil.Process(process.pid), set[psutil.Process](), time.monotonic() + 400
    try:
        while len(seen) < begun and process.poll() is None and time.monotonic() < until:
            seen |= engines_of(run)
            time.sleep(0.05)
        assert len(seen) >= begun, (tmp_path / "shown").read_text()
        sent = time.monotonic()
        process.send_signal(number)
        while process.poll() is None and time.monotonic() < sent + 60:
            seen |= engines_of(run)
            time.sleep(0.05)
        took, left = time.monotonic() - sent, alive(seen)
        assert (process.poll(), left) == (128 + number, []), (tmp_path / "shown").read_text()
        assert took < 30
        assert not (tmp_path / "run" / "metrics.jsonl").exists()  # they were still starting
    finally:
        for each in alive({*seen, *engines_of(run)}):
            each.kill()
        process.kill()
        process.wait()
