"""The section ``tools`` of a card: which tools there are, with which options and limits."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env import plugins
from mappa_env.card_files import permitted, usable
from mappa_env.errors import CardError, nearest
from mappa_env.tools.base import CallLimits
from mappa_env.tools.secrets import names_variables

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = ("python", "py", "python3")
_KEYS = ("use", "options", "limits")
_OUTSIDE = ("retriever", "mcp")
"""Kinds that start a program or open a connection: a card needs the user's permission for them."""


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool of a card. ``use`` is the name of its kind (``TOOLS``); ``options`` name no secret's value."""

    name: str
    use: str
    options: Mapping[str, Any]
    limits: CallLimits


def read_tools(where: Path, raw: Any, folders: Sequence[Path]) -> tuple[ToolEntry, ...]:
    """Read and check the section ``raw`` of the card ``where``. Raises CardError."""
    if raw is None:
        return ()
    if not isinstance(raw, dict):
        raise CardError(f"{where}: key 'tools' must be a mapping of names to tools, found {raw!r:.200}.")
    return tuple(_entry(where, name, row, folders) for name, row in raw.items())


def _entry(where: Path, name: Any, row: Any, folders: Sequence[Path]) -> ToolEntry:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        raise CardError(
            f"{where}: a tool is named like 'search', in small letters, digits and underscores, and not "
            f"{' or '.join(_RESERVED)}, found {name!r}."
        )
    at = f"tools.{name}"
    if not isinstance(row, dict) or not isinstance(row.get("use"), str):
        raise CardError(f"{where}: {at} needs 'use', the kind of tool, found {row!r:.200}.")
    for key in row:
        if key not in _KEYS:
            raise CardError(f"{where}: unknown key {key!r} in {at}." + nearest(str(key), _KEYS))
    options = row.get("options") or {}
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise CardError(
            f"{where}: {at}.options must be a mapping of names to values, found {options!r:.200}."
        )
    use = plugins.from_card(where, f"{at}.use", row["use"], folders)
    if use in _OUTSIDE or names_variables(options):
        permitted(where, folders[0], f"{at} starts a program, connects to a server or takes variables")
    if use == "search":
        options = {**options, "folder": _folder(where, at, options.get("folder"), folders)}
    if use == "mcp":
        options = {**options, "cwd": str(folders[0].resolve())}
    return ToolEntry(name, use, options, _limits(where, at, row.get("limits") or {}))


def _limits(where: Path, at: str, raw: Any) -> CallLimits:
    known = {field.name: field.type for field in dataclasses.fields(CallLimits)}
    if not isinstance(raw, dict):
        raise CardError(f"{where}: {at}.limits must be a mapping, found {raw!r:.200}.")
    for key, value in raw.items():
        if key not in known:
            raise CardError(f"{where}: unknown key {key!r} in {at}.limits." + nearest(str(key), known))
        kinds = (int,) if known[key] == "int" else (int, float)
        if type(value) not in kinds or not 0 < value < 1e9:
            kind = " or ".join(kind.__name__ for kind in kinds)
            raise CardError(f"{where}: {at}.limits.{key} must be a positive {kind}, found {value!r}.")
    return CallLimits(**raw)


def _folder(where: Path, at: str, name: Any, folders: Sequence[Path]) -> str:
    """The folder of documents: inside the card, or anywhere if the user trusts the card."""
    if not isinstance(name, str) or not name or not usable(name):
        raise CardError(f"{where}: {at}.options.folder must name a folder of documents, found {name!r:.200}.")
    for folder in folders:
        path = (folder / name).resolve()
        if path.is_dir() and path.is_relative_to(folder.resolve()) and path != folder.resolve():
            return str(path)
    outside = (folders[0] / Path(name).expanduser()).resolve()
    if not outside.is_dir():
        raise CardError(f"{where}: {at}.options.folder={name!r} does not exist in {folders[0]}.")
    permitted(where, folders[0], f"{at}.options.folder={name!r} lies outside of the card")
    return str(outside)
