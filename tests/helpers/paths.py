"""Where things lie in a checkout, for tests in folders of any depth."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELPERS = ROOT / "tests" / "helpers"
REGISTRY = ROOT / "envs_registry"
DATA = Path(os.environ.get("MAPPA_TEST_DATA", ROOT.parent / "shared" / "data"))
"""Task files that the project may not ship; a test that needs them is skipped where they are absent."""
