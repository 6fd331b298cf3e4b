"""Where this project keeps data on the host."""

from __future__ import annotations

import os
from pathlib import Path


def data_root() -> Path:
    """The folder of added data; it may not exist yet."""
    chosen = os.environ.get("MAPPA_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return Path.home() / ".local" / "share" / "mappa"
