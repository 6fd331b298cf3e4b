"""The modules of ``benchmarks/gpu_all.sh``, which are no package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from paths import ROOT

WITH_VLLM = {
    "vllm": 3,
    "vllm, eager": 3,
    "run, vllm": 1,
    "run, vllm, bf16 and sleep": 1,
    "run, vllm, adapters": 1,
}
"""Parts that need vLLM, and their checks on a CPU."""


def benchmark(name: str) -> ModuleType:
    """``benchmarks/<name>.py``; from then on the benchmarks can be imported by name."""
    folder = str(ROOT / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def rehearse(part: str, scratch: Path) -> list[Any]:
    """The rows of a part at tiny size on the CPU. Raises what ``gpu_part.checked`` raises."""
    script: Any = benchmark("gpu_part")
    rows: list[Any] = script.checked(part, script.Where("cpu", "tiny", scratch))
    return rows
