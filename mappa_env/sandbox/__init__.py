"""Sandboxes by name; the one place where a backend is chosen. Backends are imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.sandbox.base import Limits, Result, Sandbox

__all__ = ["NAMES", "Limits", "Result", "Sandbox", "make_sandbox"]

NAMES = ("process", "calculator", "null")


def make_sandbox(spec: str | Mapping[str, Any]) -> Sandbox:
    """``"process"``, ``"calculator"``, ``"null"``, or ``{"name": "process", "python": path}``."""
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    if name not in NAMES:
        raise OptionError(
            f"sandbox={spec!r} is not offered; choose from {NAMES}." + nearest(str(name), NAMES)
        )
    if set(options) - ({"python"} if name == "process" else set()):
        raise OptionError(f"sandbox {name!r} does not take {sorted(options)}.")
    if name == "process":
        from mappa_env.sandbox.process import ProcessSandbox

        return ProcessSandbox(**options)
    if name == "calculator":
        from mappa_env.sandbox.calculator import CalculatorSandbox

        return CalculatorSandbox()
    from mappa_env.sandbox.null import NullSandbox

    return NullSandbox()
