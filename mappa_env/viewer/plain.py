"""Values as JSON that any browser reads, and that may stand inside a page."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: Any) -> str:
    """``value`` as ASCII JSON that may stand inside a ``<script>`` element.

    Records become objects, and numbers that are not finite null: JSON has none.
    """
    return dumped(plain(value))


def dumped(value: Any) -> str:
    """As ``to_json``, of what is plain already. Raises ValueError for a number that is not finite."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    # In JSON these characters, which could end a script element, only stand inside strings.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(value: Any) -> Any:
    """``value`` of dictionaries, lists, strings, numbers, booleans and None only."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)
