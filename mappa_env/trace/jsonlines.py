"""JSON lines without losses: numbers that JSON lacks, and text that UTF-8 lacks, survive."""

from __future__ import annotations

import functools
import json
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaSerializer
from pydantic_core import to_json as pydantic_json

VERSION = 2
"""The version of the lines that are written."""

_REPLACED = "\ufffd".encode()
"""What pydantic writes for lone surrogates in keys, without an error."""
_FIRST = _REPLACED[:1]


def head(kind: str) -> bytes:
    """How every line of this kind begins."""
    return b'{"v":%d,"kind":"%b",' % (VERSION, kind.encode())


def to_json(value: Any) -> bytes:
    """JSON of plain values: mappings, sequences, text, numbers.

    Numbers that are not finite become ``NaN`` and ``Infinity``, which Python reads; text that UTF-8 lacks
    (lone surrogates) becomes escapes.
    """
    try:
        found = pydantic_json(value, inf_nan_mode="constants")
    except PydanticSerializationError:
        found = _REPLACED
    return _escaped(value) if _has_replaced(found) else found


def record_to_json(kind: Any, value: Any, without: set[str] | None = None) -> bytes:
    """JSON of ``value``, a dataclass or other type ``kind``, with ``to_json``'s rules.

    ``without``: fields to leave out.
    """
    serializer = _serializer(kind)
    try:
        found: bytes = serializer.to_json(value, exclude=without)
    except PydanticSerializationError:
        found = _REPLACED
    if _has_replaced(found):
        found = _escaped(serializer.to_python(value, exclude=without))
    return found


def _has_replaced(found: bytes) -> bool:
    """The first byte alone is found ten times as fast, and few texts have it."""
    return _FIRST in found and _REPLACED in found


def _escaped(value: Any) -> bytes:
    """JSON in ASCII, without spaces, as pydantic writes it: references to texts are found by their bytes."""
    return json.dumps(value, separators=(",", ":")).encode()


def from_plain(kind: Any, value: Any) -> Any:
    """A ``kind`` from what ``json.loads`` returns for its JSON. Raises ValueError."""
    return adapter(kind).validate_python(value)


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Pydantic's view of a type."""
    return TypeAdapter(kind)


@functools.cache
def _serializer(kind: Any) -> SchemaSerializer:
    config = {"ser_json_inf_nan": "constants"}
    return SchemaSerializer(_configured(adapter(kind).core_schema, config), config)  # type: ignore[arg-type]


def _configured(schema: Any, config: dict[str, str]) -> Any:
    """A core schema with ``config`` for each of its dataclasses, which do not inherit it."""
    if isinstance(schema, list):
        return [_configured(each, config) for each in schema]
    if not isinstance(schema, dict):
        return schema
    new = {name: _configured(each, config) for name, each in schema.items()}
    if schema.get("type") == "dataclass":
        new["config"] = {**(schema.get("config") or {}), **config}
    return new
