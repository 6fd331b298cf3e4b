"""JSON and YAML that others wrote, and JSON that others will read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import yaml

_BOM = b"\xef\xbb\xbf"


def read_json(text: str | bytes) -> Any:
    """The value in a JSON text, whose bytes are UTF-8. Raises ValueError, whatever the text holds."""
    try:
        return json.loads(_decoded(text))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_yaml(text: str | bytes) -> Any:
    """The value in a YAML text, whose bytes are UTF-8. Raises ValueError, whatever the text holds."""
    try:
        return yaml.safe_load(_decoded(text))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (
        yaml.YAMLError,
        AttributeError,
        TypeError,
        ArithmeticError,
    ) as error:  # of wrong tags
        raise ValueError(str(error)) from None


def strict(value: Any) -> Any:
    """``value`` with null for NaN and infinities, which JSON lacks."""
    if isinstance(value, Mapping):
        return {key: strict(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, indent: int | None = 1) -> str:
    """``value`` as JSON that every reader takes; see ``strict``."""
    return json.dumps(strict(value), indent=indent, allow_nan=False)


def check_type(name: str, value: object, kinds: tuple[type, ...]) -> None:
    """Raise ValueError for a value that JSON gives another type than ``kinds``: ``true`` is not a number."""
    if type(value) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be {wanted}, found {value!r:.60}")


def check_amount(name: str, value: float | None) -> None:
    """Raise ValueError for a count or a sum that is negative, infinite or no number; None is unknown."""
    if value is not None and not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number that is not negative, found {value!r}")


def _decoded(text: str | bytes) -> str:
    return text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(_BOM).decode("utf-8")
