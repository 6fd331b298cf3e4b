"""A budget in dollars: reserves the maximum cost before each call and books the actual cost after it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mappa_env.coach.llm.models import Price
from mappa_env.coach.llm.wire import Passing, Request, Usage
from mappa_env.errors import CoachStopped, CoachWarning, OptionError
from mappa_env.json_and_yaml import read_json


@dataclass(slots=True)
class Bill:
    """One call in flight. Set ``made`` when it is sent and ``usage`` when it is known.

    Without ``usage``, its maximum cost ``most`` is booked.
    """

    most: float
    made: bool = False
    usage: Usage | None = None


class Budget:
    """Limits what a run may spend. ``dollars`` None: no limit. Thread-safe.

    ``ledger``: a file with one JSON line per call; a later run continues its sum. Only one process at a time
    may use a ledger. Raises OptionError for a limit without a price.
    """

    def __init__(self, dollars: float | None, price: Price | None, ledger: Path | None = None) -> None:
        if dollars is not None and price is None:
            raise OptionError(
                f"budget={dollars!r}: the price of this model is unknown; set price={{'input': ..., "
                "'output': ...} in dollars per million tokens."
            )
        self._dollars, self._price = dollars, price
        self._changed = threading.Condition()
        self._reserved, self._on_their_way = 0.0, 0
        self._ledger = ledger
        self.spent, self.calls = _read(ledger)

    @contextlib.contextmanager
    def bill(self, request: Request, until: float) -> Iterator[Bill]:
        """Wait until the budget covers one call, then wrap the call.

        Calls in flight may cost less than was reserved for them. Raises CoachStopped if the budget is not
        sufficient, Passing if that is not known by ``until`` (monotonic seconds).
        """
        bill = Bill(self._price.most(request.size, request.max_output_tokens) if self._price else 0.0)
        with self._changed:
            while not self._fits(bill.most):
                if (left := until - time.monotonic()) <= 0:
                    raise Passing("the rest of the budget is reserved for calls in flight")
                self._changed.wait(left)
            self._reserved += bill.most
            self._on_their_way += 1
        try:
            yield bill
        finally:
            self._book(bill)

    def _fits(self, most: float) -> bool:
        if self._dollars is None or self.spent + self._reserved + most <= self._dollars:
            return True
        if self.spent + most > self._dollars:
            raise CoachStopped(
                f"the budget of ${self._dollars:g} is spent: ${self.spent:.4f} booked, "
                f"${self._reserved:.4f} reserved, and the next call may cost ${most:.4f}. "
                "Raise budget= and resume the run."
            )
        return False

    def _book(self, bill: Bill) -> None:
        cost = bill.most
        if bill.usage is not None:
            cost = self._price.of(bill.usage) if self._price else 0.0
        with self._changed:
            self._on_their_way -= 1
            self._reserved = self._reserved - bill.most if self._on_their_way else 0.0  # sums of floats drift
            self._changed.notify_all()
            if not bill.made:
                return
            self.spent += cost
            self.calls += 1
            if self._ledger is not None:
                usage = bill.usage or Usage()
                row = {
                    "time": time.time(),
                    "cost": cost,
                    "known": bill.usage is not None,
                    "prompt": usage.prompt,
                    "cached": usage.cached,
                    "output": usage.output,
                    "thoughts": usage.thoughts,
                }
                _append(self._ledger, json.dumps(row))


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, line.encode() + b"\n")
    finally:
        os.close(file)


def _read(path: Path | None) -> tuple[float, int]:
    """Dollars and calls so far.

    A line that a crash cut short is terminated and counts as nothing, with a warning: its cost is unknown.
    """
    spent, calls = 0.0, 0
    if path is None or not path.exists():
        return spent, calls
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        _append(path, "")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        try:
            spent += float(read_json(line)["cost"])
            calls += 1
        except (ValueError, KeyError, TypeError):
            warnings.warn(
                f"{path} line {number} is incomplete and does not count: {line!r:.120}",
                CoachWarning,
                stacklevel=2,
            )
    return spent, calls
