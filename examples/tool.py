"""tools: {convert: {use: "tool.py:Convert", options: {digits: 2}}} in the card.yaml of the same folder"""

from collections.abc import Mapping
from typing import Any

from mappa_env.tools import BaseTool, CallSite

METRES = {"m": 1.0, "km": 1000.0, "mile": 1609.344, "foot": 0.3048}


class Convert(BaseTool):
    """Converts lengths, to ``digits`` digits."""

    description = "Converts a length from one unit to another: m, km, mile, foot."
    parameters = {"value": {"type": "number"}, "unit": {"type": "string"}, "to": {"type": "string"}}  # noqa: RUF012

    def __init__(self, digits: int = 3) -> None:
        self.digits = digits

    def call(self, name: str, arguments: Mapping[str, Any], site: CallSite) -> str:
        for unit in (arguments["unit"], arguments["to"]):
            if unit not in METRES:
                raise ValueError(f"{unit!r:.40} is not one of {', '.join(METRES)}")
        value = arguments["value"] * METRES[arguments["unit"]] / METRES[arguments["to"]]
        return f"{value:.{self.digits}f} {arguments['to']}"
