"""Environment cards: each folder beside this file is one environment, as data."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent


def folders() -> list[Path]:
    """Every card folder that ships with the package, in alphabetical order."""
    return sorted(path.parent for path in ROOT.glob("*/card.yaml"))
