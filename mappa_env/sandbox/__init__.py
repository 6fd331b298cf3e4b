"""Sandboxes by name. A backend is imported when it is first used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env import plugins
from mappa_env.errors import OptionError
from mappa_env.sandbox.base import Limits, Result, Sandbox

__all__ = ["DEFAULT", "SANDBOXES", "Limits", "Result", "Sandbox", "make_sandbox"]

DEFAULT = "local"
SANDBOXES = plugins.Kind(
    name="sandbox",
    option="sandbox",
    group="mappa.sandboxes",
    builtin={
        "local": "mappa_env.sandbox.local.sandbox:LocalSandbox",
        "bwrap": "mappa_env.sandbox.bwrap.sandbox:BwrapSandbox",
        "fusion:<url>": "mappa_env.sandbox.fusion.sandbox:FusionSandbox",
        "process": "mappa_env.sandbox.process:ProcessSandbox",
        "calculator": "mappa_env.sandbox.calculator:CalculatorSandbox",
        "null": "mappa_env.sandbox.null:NullSandbox",
    },
    methods={"run": (3, ("seed",)), "open_workspace": (0, ()), "close": (0, ())},
    attributes={"name": str},
    advice="Write a class with name, isolation, run(), open_workspace() and close(); see docs/sandbox.md.",
)


def make_sandbox(spec: str | Mapping[str, Any]) -> Sandbox:
    """Make a sandbox from a name, or from a dict with options: ``{"name": "local", "python": path}``.

    ``SANDBOXES`` lists the names. ``"fusion:<url>"`` is short for ``{"name": "fusion", "url": url}``.
    Raises OptionError.
    """
    name, options = SANDBOXES.split(spec)
    if name.startswith("fusion:"):
        name, options["url"] = "fusion", name.removeprefix("fusion:")
    if name == "fusion" and "url" not in options:
        raise OptionError("sandbox='fusion' needs the server's address: sandbox='fusion:<url>'.")
    made: Sandbox = SANDBOXES.make(name, **options)
    return made
