"""What the tests fake or simulate, for benchmarks: model servers, engines, runs that kill themselves."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

_TESTS = Path(__file__).resolve().parents[1] / "tests"


def load(name: str = "fake_llm", part: str = "env") -> ModuleType:
    """``tests/<part>/<name>.py``. Ends the program where the tests are not beside the benchmarks."""
    folder = _TESTS / part
    if not (folder / f"{name}.py").is_file():
        sys.exit(f"{folder}/{name}.py is missing: run this in a checkout of the repository.")
    sys.path.insert(0, str(folder))
    return importlib.import_module(name)
