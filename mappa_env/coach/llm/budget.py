"""A budget in dollars: reserves the maximum cost before each call and books the actual cost after it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.coach.llm.models import Price
from mappa_env.coach.llm.reservations import Reservations, left_by_others
from mappa_env.coach.llm.wire import Passing, Request, Usage
from mappa_env.errors import CoachError, CoachStopped, CoachWarning, OptionError
from mappa_env.json_and_yaml import check_amount, read_json

_COUNTS = tuple(field.name for field in dataclasses.fields(Usage) if field.name != "known")
"""What a line of the ledger counts besides dollars."""


@dataclass(slots=True)
class Bill:
    """One call in flight. ``Budget.send`` says that it is sent; set ``usage`` when it is known.

    Without ``usage``, its maximum cost ``most`` is booked. ``call``: its id among the reservations.
    """

    most: float
    made: bool = False
    usage: Usage | None = None
    call: str = ""


class Budget:
    """Limits what a run may spend. ``dollars`` None: no limit. Thread-safe.

    ``ledger``: a file with one JSON line per call; a later run continues its sum. Calls in flight are written
    beside it before they are sent; those of a process that was killed are booked at their most when the
    ledger is next opened, with a CoachWarning. Processes that share a ledger do not see what others spend.
    Raises OptionError for a limit without a price.
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
        self._reservations: Reservations | None = None
        self.spent, self.calls = (0.0, 0) if ledger is None else _read(ledger)

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

    def send(self, bill: Bill) -> None:
        """Say that the call is sent now. Raises OSError if that cannot be written; then do not send it."""
        if self._ledger is not None:
            with self._changed:
                if self._reservations is None:
                    self._reservations = Reservations(self._ledger)
                bill.call = self._reservations.enter(bill.most)
        bill.made = True

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
                _append(self._ledger, json.dumps(_row(cost, bill.call, bill.usage)))
                assert self._reservations is not None
                self._reservations.settle(bill.call)


def _row(cost: float, call: str, usage: Usage | None) -> dict[str, Any]:
    """A line of the ledger. ``usage`` None: unknown."""
    tokens = dataclasses.asdict(usage or Usage(known=False))
    return {"time": time.time(), "cost": cost, **tokens, "id": call}


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, line.encode() + b"\n")
    finally:
        os.close(file)


def _read(path: Path) -> tuple[float, int]:
    """Dollars and calls so far, with those that were in flight when a process was killed.

    A line that a crash cut short is terminated and counts as nothing: its call is among those in flight.
    Raises CoachError for amounts that cannot be.
    """
    with left_by_others(path) as left:
        booked = _booked(path)
        settled = {call for call, _ in booked}
        lost = {call: most for call, most in left if call not in settled}
        for call, most in lost.items():
            _append(path, json.dumps(_row(most, call, None)))
    if lost:
        warnings.warn(
            f"{path}: {len(lost)} calls were in flight when a process was killed; they count at their most, "
            f"${sum(lost.values()):.4f}.",
            CoachWarning,
            stacklevel=2,
        )
    return sum(cost for _, cost in booked) + sum(lost.values()), len(booked) + len(lost)


def _booked(path: Path) -> list[tuple[str, float]]:
    """(id, dollars) of the calls in the ledger."""
    data = path.read_bytes() if path.exists() else b""
    if data and not data.endswith(b"\n"):
        _append(path, "")
    found = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        try:
            row = read_json(line)
            call, cost = str(row.get("id")), float(row["cost"])
        except (ValueError, KeyError, TypeError, AttributeError):
            warnings.warn(
                f"{path} line {number} is incomplete and does not count: {line!r:.120}",
                CoachWarning,
                stacklevel=3,
            )
            continue
        try:
            check_amount("cost", cost)
            for name in _COUNTS:
                check_amount(name, row.get(name))
        except (ValueError, TypeError) as error:
            raise CoachError(
                f"{path} line {number} is no call ({error}): write what it cost there, or remove the line."
            ) from None
        found.append((call, cost))
    return found
