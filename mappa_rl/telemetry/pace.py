"""How long one phase took, divided: what is done once before its first units, the units, what comes after."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Pace(BaseModel):
    """Seconds of a phase. ``start_s + units x unit_s + end_s`` is its wall time.

    ``start_s`` is what the first reported units took beyond ``unit_s`` each. A phase that reported once has
    all its time in ``unit_s``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    start_s: float
    unit_s: float
    end_s: float


class Marks:
    """Collects when units of a phase were done."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def add(self, seconds: float, done: int) -> None:
        """``done`` units of this phase were done ``seconds`` after its start."""
        self._first = self._first or (seconds, done)
        self._last = (seconds, done)

    def pace(self, total_s: float) -> Pace | None:
        """The pace of a phase that took ``total_s``; None if no unit was done."""
        (last_s, done), first = self._last, self._first
        if first is None or not done:
            return None
        if done == first[1]:
            return Pace(start_s=0.0, unit_s=last_s / done, end_s=total_s - last_s)
        unit = (last_s - first[0]) / (done - first[1])
        return Pace(start_s=max(first[0] - unit * first[1], 0.0), unit_s=unit, end_s=total_s - last_s)
