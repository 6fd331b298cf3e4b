"""The cells of target columns as written: ``None`` and ``NA`` are classes, only empty cells are missing."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def targets_in(content: bytes | Path, names: Sequence[str], *, rows: int | None = None) -> Any:
    """The columns ``names`` of a CSV table as a frame of texts; missing cells are empty."""
    import pandas as pd

    table = pd.read_csv(opened(content), usecols=list(names), dtype=str, keep_default_na=False, nrows=rows)
    return table[list(names)].fillna("")


def filled(targets: Any) -> Any:
    """For each row, whether all its targets are there."""
    return targets.apply(lambda column: column.str.strip() != "").all(axis=1)


def opened(content: bytes | Path) -> Any:
    """What pandas reads a table from."""
    return io.BytesIO(content) if isinstance(content, bytes) else content
