"""Sandboxes by name; the one place where a backend is chosen. Backends are imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.sandbox.base import Limits, Result, Sandbox

__all__ = ["DEFAULT", "NAMES", "Limits", "Result", "Sandbox", "make_sandbox"]

DEFAULT = "local"
NAMES = ("local", "bwrap", "fusion:<url>", "process", "calculator", "null")
_OPTIONS = {
    "local": {"python", "level", "concurrency"}, "bwrap": {"python"}, "fusion": {"url", "concurrency"},
    "process": {"python"}, "calculator": set(), "null": set(),
}  # fmt: skip


def make_sandbox(spec: str | Mapping[str, Any]) -> Sandbox:
    """A name of ``NAMES``, ``"path/mine.py:Class"``, or a dict: ``{"name": "local", "python": path}``.

    See ``docs/sandbox.md``. Raises OptionError for what is not offered.
    """
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = str(options.pop("name", ""))
    if name.startswith("fusion:"):
        name, options["url"] = "fusion", name.removeprefix("fusion:")
    if ".py:" in name:
        from mappa_env.plugins import construct, from_file

        made: Sandbox = construct("sandbox", name, from_file("sandbox", name), **options)
        return made
    if name not in _OPTIONS:
        known = [*_OPTIONS, "path/mine.py:Class"]
        raise OptionError(f"sandbox={spec!r} is not offered; choose from {NAMES}." + nearest(name, known))
    if unknown := sorted(set(options) - _OPTIONS[name]):
        raise OptionError(f"sandbox {name!r} does not take {unknown}; it takes {sorted(_OPTIONS[name])}.")
    match name:
        case "local":
            from mappa_env.sandbox.local import LocalSandbox

            return LocalSandbox(**options)
        case "bwrap":
            from mappa_env.sandbox.bwrap import BwrapSandbox

            return BwrapSandbox(**options)
        case "fusion":
            from mappa_env.sandbox.fusion import FusionSandbox

            if "url" not in options:
                raise OptionError("sandbox 'fusion' needs the server's address: sandbox='fusion:<url>'.")
            return FusionSandbox(**options)
        case "process":
            from mappa_env.sandbox.process import ProcessSandbox

            return ProcessSandbox(**options)
        case "calculator":
            from mappa_env.sandbox.calculator import CalculatorSandbox

            return CalculatorSandbox()
    from mappa_env.sandbox.null import NullSandbox

    return NullSandbox()
