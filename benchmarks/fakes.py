"""The tests' fake model servers (real HTTP on loopback, scripted answers), for use without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parents[1] / "tests" / "env"


def load() -> ModuleType:
    """``tests/env/fake_llm.py``. Ends the program where the tests are not beside the benchmarks."""
    if not (_FOLDER / "fake_llm.py").is_file():
        sys.exit(f"{_FOLDER}/fake_llm.py is missing: run this in a checkout of the repository.")
    sys.path.insert(0, str(_FOLDER))
    import fake_llm

    return fake_llm
