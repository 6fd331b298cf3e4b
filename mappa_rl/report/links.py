"""Links from a page into the viewer of a run.

They lead to ``viewer.html`` in the run's folder: the page that ``mappa-env view RUN --export`` writes there,
or the address at which ``mappa-env view RUN`` serves the viewer beside the report.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, urlencode

from mappa_env.viewer.page import VIEWER


def to_episode(page: Path, run: Path, key: str) -> str:
    """The address of the episode ``key`` of the folder ``run``, as seen from the file ``page``."""
    return f"{to_file(page, run / VIEWER)}#/episode?{urlencode({'key': key})}"


def to_file(page: Path, file: Path) -> str:
    """The address of ``file``, as seen from the file ``page``."""
    return quote(os.path.relpath(file.resolve(), page.resolve().parent))
