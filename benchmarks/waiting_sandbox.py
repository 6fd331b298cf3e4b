"""A SIMULATED sandbox for benchmarks: an action takes as long as recorded ones did."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.calculator import CalculatorSandbox
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.workspace.workspace import Workspace


class Waiting:
    """Draws the seconds of an action, by its seed, from ``waits``: quantiles at equal distances.

    ``works``: run the code in an interpreter first, and wait for the rest; else it is calculated. ``slots``:
    how many actions of all sandboxes with this number run at once; 0: any.
    """

    name = "waiting"
    isolation = "waiting"

    def __init__(self, waits: Sequence[float], works: bool = False, slots: int = 0) -> None:
        self._waits = tuple(waits)
        self._own = LocalSandbox() if works else CalculatorSandbox()
        self._slots = places(slots) if slots else None

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """What the code does, after its time."""
        asked = time.monotonic()
        if self._slots is None:
            return self._run(workspace, code, limits, seed)
        with self._slots:
            queued_s = time.monotonic() - asked
            return replace(self._run(workspace, code, limits, seed), queued_s=queued_s)

    def open_workspace(self) -> Workspace:
        """A workspace of the sandbox that computes."""
        return self._own.open_workspace()

    def close(self) -> None:
        """Close the sandbox that computes."""
        self._own.close()

    def _run(self, workspace: Workspace, code: str, limits: Limits, seed: int) -> Result:
        began, wait_s = time.monotonic(), drawn(self._waits, seed)
        result = self._own.run(workspace, code, limits, seed=seed)
        time.sleep(max(began + wait_s - time.monotonic(), 0.0))
        return replace(result, wall_s=time.monotonic() - began)


@cache
def places(slots: int) -> threading.BoundedSemaphore:
    """The slots that all sandboxes with this number share."""
    return threading.BoundedSemaphore(slots)


def drawn(waits: Sequence[float], seed: int) -> float:
    """Seconds, between two neighbouring quantiles that ``seed`` draws."""
    at = random.Random(seed).uniform(0, len(waits) - 1)
    low = min(int(at), len(waits) - 2)
    return waits[low] + (at - low) * (waits[low + 1] - waits[low])
