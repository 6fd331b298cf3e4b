"""The warm start's success by temperature, on training tasks, from which its best temperature is chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mappa_env.json_and_yaml import read_json
from mappa_rl.atomic import write_text
from mappa_rl.errors import RunError

CALIBRATION = "calibration.json"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Success rate of the warm start by temperature; empty if calibration is off."""

    rates: Mapping[float, float] = field(default_factory=dict)

    @property
    def best(self) -> float | None:
        """The temperature with the highest rate (ties: the higher one); None if calibration is off.

        A lower temperature alone sharpens a policy. Comparing at the warm start's best temperature keeps that
        from passing for learning.
        """
        return max(self.rates, key=lambda t: (self.rates[t], t), default=None)

    def only(self, temperatures: Sequence[float]) -> Calibration:
        """The same rates, restricted to ``temperatures``."""
        return Calibration({t: rate for t, rate in self.rates.items() if t in temperatures})

    def write(self, out: Path) -> None:
        """Write ``calibration.json`` into a run's folder."""
        write_text(out / CALIBRATION, json.dumps({"best": self.best, "rates": list(self.rates.items())}))


def read_calibration(out: Path) -> Calibration:
    """Read a run's calibration; it is empty if there is none yet. Raises RunError for a damaged file."""
    path = out / CALIBRATION
    if not path.is_file():
        return Calibration()
    try:
        return Calibration({float(t): float(rate) for t, rate in read_json(path.read_bytes())["rates"]})
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error!r}): remove it to calibrate again.") from None
