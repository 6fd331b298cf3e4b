"""Programs that torchrun starts in several processes, and what each of them reports.

Torchrun keeps the port of the group open from the start. A port that a test looks for and gives back may be
taken before its processes listen there.
Every process writes a file of its own: lines that several write to one pipe may run into each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paths import HELPERS, ROOT

_REPORTS = "REPORTS_OF_PROCESSES"


def run_processes(command: Sequence[str], count: int, *, timeout_s: float = 900, **variables: str) -> None:
    """Run ``command`` in ``count`` processes of one group, with these variables in their environment.

    Raises:
        RuntimeError: one of them failed; the message is what they printed last.
    """
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "--no-python"]
    with subprocess.Popen(
        [sys.executable, *launch, *command],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as launcher:
        try:
            said, _ = launcher.communicate(timeout=timeout_s)
        except BaseException:
            launcher.terminate()  # it ends the others
            raise
    if launcher.returncode:
        raise RuntimeError(said[-6000:])


def report(row: dict[str, Any]) -> None:
    """Called by each process of the script, once."""
    place = Path(os.environ[_REPORTS]) / f"{os.environ['RANK']}.json"
    place.write_text(json.dumps(row), encoding="utf-8")


def reports(script: str, processes: int, *arguments: str) -> list[dict[str, Any]]:
    """Run a script of this folder in ``processes`` processes: their reports, by rank.

    Raises:
        RuntimeError: the script failed.
    """
    with tempfile.TemporaryDirectory(prefix="mappa-reports-") as folder:
        variables = {"PYTHONPATH": f"{ROOT}{os.pathsep}{HELPERS}", _REPORTS: folder}
        run_processes([sys.executable, str(HELPERS / script), *arguments], processes, **variables)
        places = [Path(folder) / f"{rank}.json" for rank in range(processes)]
        return [json.loads(place.read_text(encoding="utf-8")) for place in places]
