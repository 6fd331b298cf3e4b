"""metrics.jsonl survives kills and resumes, TensorBoard gets the same numbers, the display shows them."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from mappa_rl.errors import RunError
from mappa_rl.telemetry.progress import Progress, sparkline
from mappa_rl.telemetry.sinks import METRICS, Metrics, read_metrics
from paths import ROOT


def log(metrics: Metrics, steps: range) -> None:
    for step in steps:
        metrics.log(step, {"success": step / 10, "reward/solver_0": 7.0 - step})


def test_a_line_per_step_is_on_disk_at_once(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, tensorboard=False)
    metrics.log(1, {"success": 0.5, "reward/solver_0": 3})
    assert (tmp_path / METRICS).read_text() == '{"step": 1, "success": 0.5, "reward/solver_0": 3.0}\n'
    metrics.close()


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    with Metrics(tmp_path, tensorboard=False) as metrics:
        metrics.log(1, {"loss": math.nan, "kl/a": math.inf})
    assert read_metrics(tmp_path) == [{"step": 1, "loss": None, "kl/a": None}]
    assert "NaN" not in (tmp_path / METRICS).read_text()


@pytest.mark.parametrize("cut", [b"", b'{"step": 8, "succ', b"\xff\xfe\x00"])
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path, cut: bytes) -> None:
    with Metrics(tmp_path / "whole", tensorboard=False) as metrics:
        log(metrics, range(1, 11))
    with Metrics(tmp_path / "parts", tensorboard=False) as metrics:
        log(metrics, range(1, 8))
    with (tmp_path / "parts" / METRICS).open("ab") as file:
        file.write(cut)
    with Metrics(tmp_path / "parts", resumed_at=4, tensorboard=False) as metrics:
        log(metrics, range(5, 11))
    assert (tmp_path / "parts" / METRICS).read_bytes() == (tmp_path / "whole" / METRICS).read_bytes()


def test_a_new_run_starts_an_empty_file(tmp_path: Path) -> None:
    with Metrics(tmp_path, tensorboard=False) as metrics:
        log(metrics, range(1, 4))
    Metrics(tmp_path, tensorboard=False).close()
    assert read_metrics(tmp_path) == []


def test_a_killed_writer_loses_no_finished_line(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from mappa_rl.telemetry.sinks import Metrics\n"
        "m = Metrics(Path(sys.argv[1]), tensorboard=False)\n"
        "for step in range(1, 6): m.log(step, {'success': 0.5})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = ROOT
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert done.returncode == -signal.SIGKILL
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("line", ["not json", "[1]", '{"success": 1}', '{"step": "one"}'])
def test_a_damaged_file_is_refused_by_line(tmp_path: Path, line: str) -> None:
    (tmp_path / METRICS).write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
    with pytest.raises(RunError, match="line 2"):
        read_metrics(tmp_path)


def test_tensorboard_holds_the_same_numbers_after_a_resume(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Metrics(tmp_path, tensorboard=True) as metrics:
        log(metrics, range(1, 6))
    with Metrics(tmp_path, tensorboard=True, resumed_at=3) as metrics:
        log(metrics, range(4, 8))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, round(event.value, 4)) for event in events.Scalars("success")]
    assert found == [(row["step"], row["success"]) for row in read_metrics(tmp_path)]


def follow(console: Console) -> Progress:
    with Progress("demo", ["warm start", "training"], console) as progress:
        progress.phase("warm start", 2)
        progress.update(2, {"loss": 0.25})
        progress.note("[saved] the warm start")
        progress.phase("training", 40)
        values = {"success": 0.5, "reward/solver_0": 7.25, "tokens_per_s": 6100.0}
        progress.update(10, values)
        progress.update(40, {**values, "success": 0.75})
    return progress


def test_plain_lines_without_a_terminal() -> None:
    text = io.StringIO()
    progress = follow(Console(file=text, width=60))
    lines = text.getvalue().splitlines()
    assert lines[0] == "[1/2] warm start: 2 steps"
    assert "[saved] the warm start" in lines
    assert "[2/2] training: 40 steps" in lines
    assert any("10/40 steps · success 50%" in line and "left" in line for line in lines)
    assert lines[-1] == "  40/40 steps · success 75% · reward solver_0 7.25 · 6,100 tokens/s"
    assert "\x1b" not in text.getvalue()
    assert set(progress.seconds) == {"warm start", "training"}


def test_a_live_panel_in_a_terminal() -> None:
    text = io.StringIO()
    follow(Console(file=text, width=100, force_terminal=True))
    shown = text.getvalue()
    for said in ("[2/2] training", "40/40 steps", "success 75%", "solver_0 7.25", "6,100 tokens/s", "▁█"):
        assert said in shown


def test_values_that_are_not_finite_do_not_break_the_display() -> None:
    text = io.StringIO()
    with Progress("demo", console=Console(file=text, width=100, force_terminal=True)) as progress:
        progress.phase("training", 3)
        for step in (1, 2, 3):
            progress.update(step, {"success": math.nan, "loss": math.inf})
    assert "3/3 steps" in text.getvalue()


def test_time_left_counts_only_what_this_process_did(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("mappa_rl.telemetry.progress.time.monotonic", lambda: now[0])
    text = io.StringIO()
    with Progress("demo", console=Console(file=text, width=100)) as progress:
        progress.phase("training", 40, done=30)
        now[0] += 10.0
        progress.update(32)
    assert "32/40 steps · 0:40 left" in text.getvalue()
    assert progress.seconds == {"training": 10.0}


def test_sparkline() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.3, 0.3]) == "▁▁"


def test_rows_are_json_that_others_can_read(tmp_path: Path) -> None:
    with Metrics(tmp_path, tensorboard=False) as metrics:
        log(metrics, range(1, 3))
    rows = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert rows[1] == {"step": 2, "success": 0.2, "reward/solver_0": 5.0}
