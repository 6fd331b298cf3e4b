"""What the tests fake or simulate, for benchmarks: model servers, engines, runs that kill themselves."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

_HELPERS = Path(__file__).resolve().parents[1] / "tests" / "helpers"


def load(name: str = "fake_llm") -> ModuleType:
    """``tests/helpers/<name>.py``. Ends the program if the tests are not next to the benchmarks."""
    if not (_HELPERS / f"{name}.py").is_file():
        sys.exit(f"{_HELPERS}/{name}.py is missing: run this in a checkout of the repository.")
    sys.path.insert(0, str(_HELPERS))
    return importlib.import_module(name)
