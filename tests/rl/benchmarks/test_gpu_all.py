"""The kit for one GPU, rehearsed on a CPU: every part runs, and what is missing, wrong or late is told."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_kit import WITH_VLLM, benchmark, rehearse
from paths import ROOT

SCRIPT = ROOT / "benchmarks" / "gpu_all.sh"
CHECKED = {
    "machine": 0,
    "attention": 0,
    "gradients": 2,
    "learner": 0,
    "learner, layers recomputed": 0,
    "head": 1,
    "generation, hf": 1,
    "ipc, two processes": 1,
    "run, hf": 1,
    "run, offload": 1,
    "rollouts, ours": 0,
}
"""Parts that a CPU can run, and their checks there."""


@pytest.mark.slow
@pytest.mark.parametrize("part", CHECKED)
def test_each_part_runs_at_tiny_size(part: str, tmp_path: Path) -> None:
    rows = rehearse(part, tmp_path)
    assert rows
    assert all(isinstance(text, str) for row in rows for text in row)
    assert sum(check.startswith("ok: ") for _, _, check in rows) == CHECKED[part]


def test_every_part_has_a_function_and_fits_in_ten_minutes_with_the_others() -> None:
    kit, parts = benchmark("gpu_all"), benchmark("gpu_part")
    assert list(kit.PARTS) == list(parts.FUNCTIONS)
    assert {*kit.PARTS} - {*CHECKED} == {*WITH_VLLM, "rollouts, TRL"}
    assert kit.TOTAL_S < 600


def test_a_wrong_figure_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The head's gradient, from logits of which one is changed."""
    from mappa_rl.learner import lm_head

    right = lm_head.score_logits

    def wrong(logits: torch.Tensor, targets: torch.Tensor, temperature: float) -> Any:
        return right(logits * 1.5, targets, temperature)

    monkeypatch.setattr(lm_head, "score_logits", wrong)
    with pytest.raises(benchmark("gpu_part").Wrong, match="gradient"):
        rehearse("head", tmp_path)


@pytest.mark.parametrize("package", ["vllm", "trl"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else real(name, *more)
    )
    part = {"vllm": "run, vllm", "trl": "rollouts, TRL"}[package]
    with pytest.raises(benchmark("gpu_part").Skipped, match=f"{package} is not installed"):
        rehearse(part, tmp_path)


def test_a_package_that_only_the_code_needs_is_named_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts: Any = benchmark("gpu_part")

    def needing(where: Any) -> Any:
        import no_such_package

        return no_such_package

    monkeypatch.setitem(parts.FUNCTIONS, "machine", needing)
    with pytest.raises(parts.Skipped, match="no_such_package is not installed"):
        rehearse("machine", tmp_path)


def test_a_part_that_hangs_or_crashes_is_ended_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kit: Any = benchmark("gpu_all")
    script = tmp_path / "part.py"
    note = tmp_path / "child"
    script.write_text(
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "assert sys.argv[1] != 'crash', 'no such luck'\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr(kit, "SCRIPT", script)
    late, crashed = kit.run_part("hang", [], 5.0), kit.run_part("crash", [], 60.0)
    assert (late.kind, late.why) == ("late", "not done after 5 s")
    assert (crashed.kind, crashed.why) == ("failed", "AssertionError: no such luck")
    until = time.monotonic() + 60
    while _lives(int(note.read_text())):
        assert time.monotonic() < until
        time.sleep(0.05)
    text = kit.table([late, crashed], "One GPU")
    assert "| hang | late | not done after 5 s |" in text


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="here it would measure")
def test_the_script_writes_one_table(tmp_path: Path) -> None:
    out, figures = tmp_path / "table.md", tmp_path / "figures.json"
    environment = {**os.environ, "PYTHON": sys.executable}
    command = [str(SCRIPT), "--only", "machine", "--only", "gradients", "--out", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| machine | skipped | torch finds no CUDA GPU |" in out.read_text()
    rehearsed = [*command, "--cpu-rehearsal", "--json", str(figures)]
    done = subprocess.run(rehearsed, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = out.read_text()
    assert text.startswith("# Rehearsal on a CPU: no figure of a GPU")
    assert f"| machine | torch | {torch.__version__} |  |" in text
    assert [part["kind"] for part in json.loads(figures.read_text())] == ["ok", "ok"]


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
