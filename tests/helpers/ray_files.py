"""Which files of tests start Ray."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r"^(?:from|import) (?:ray_cluster|runs_on_ray)\b", re.MULTILINE)


@cache
def starts_ray(file: Path) -> bool:
    """Whether the tests of ``file`` start nodes of Ray; one test at a time may (``ray_cluster.alone``)."""
    return _IMPORT.search(file.read_text(encoding="utf-8")) is not None
