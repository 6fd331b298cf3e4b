"""The parts of the kit for one GPU that need vLLM, rehearsed on a CPU, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine_helpers import needs_vllm
from gpu_kit import WITH_VLLM
from paths import ROOT


@needs_vllm
@pytest.mark.large
@pytest.mark.parametrize("part", WITH_VLLM)
def test_the_parts_with_vllm_run_at_tiny_size(part: str, tmp_path: Path) -> None:
    command = [str(ROOT / "benchmarks" / "gpu_all.sh"), "--cpu-rehearsal", "--only", part]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "table.md")],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "table.md").read_text()
    assert text.count("| ok: ") == WITH_VLLM[part]
    assert "not measured" not in text
