"""Checks that the operating system can run local sandboxes."""

from __future__ import annotations

import os
from platform import system

from mappa_env.errors import SandboxError

_CALLS = ("memfd_create", "pidfd_open", "sched_getaffinity")


def require_linux(name: str) -> None:
    """Raise SandboxError, naming alternatives, unless this is Linux with the calls that we need."""
    found = system()
    if found == "Linux":
        missing = [call for call in _CALLS if not hasattr(os, call)]
        if not missing:
            return
        found = f"a Python without os.{missing[0]}"
    raise SandboxError(
        f"sandbox={name!r} needs Linux, and this is {found}: use sandbox='fusion:<url>' with a SandboxFusion "
        "server, or run MAPPA in a Linux container."
    )
