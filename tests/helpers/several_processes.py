"""Scripts that torchrun starts in several processes, and what each of them reports.

Every process writes a file of its own: lines that several write to one pipe may run into each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from paths import HELPERS, ROOT

_REPORTS = "REPORTS_OF_PROCESSES"


def report(row: dict[str, Any]) -> None:
    """Called by each process of the script, once."""
    place = Path(os.environ[_REPORTS]) / f"{os.environ['RANK']}.json"
    place.write_text(json.dumps(row), encoding="utf-8")


def reports(script: str, processes: int, *arguments: str) -> list[dict[str, Any]]:
    """Run a script of this folder in ``processes`` processes: their reports, by rank.

    Raises:
        RuntimeError: the script failed.
    """
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with tempfile.TemporaryDirectory(prefix="mappa-reports-") as folder:
        done = subprocess.run(
            [sys.executable, *launch, str(HELPERS / script), *arguments],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}{os.pathsep}{HELPERS}",
                "OMP_NUM_THREADS": "1",
                _REPORTS: folder,
            },
            capture_output=True,
            text=True,
            timeout=900,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-6000:])
        places = [Path(folder) / f"{rank}.json" for rank in range(processes)]
        return [json.loads(place.read_text(encoding="utf-8")) for place in places]
