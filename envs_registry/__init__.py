"""Environment cards: each folder next to this file describes one environment."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent


def folders() -> list[Path]:
    """All shipped card folders, in alphabetical order."""
    return sorted(path.parent for path in ROOT.glob("*/card.yaml"))
