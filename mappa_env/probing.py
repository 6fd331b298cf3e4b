"""Facts from inside files: the card's probe, run in a sandboxed scratch copy, apart from the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mappa_env.sandbox.base import Limits, Sandbox
from mappa_env.workspace import Workspace

_MARK = "PROBE "


def probe(sandbox: Sandbox, workspace: Workspace, source: str, limits: Limits) -> Mapping[str, Any]:
    """Run ``source`` in a copy of ``workspace`` and return the JSON object of its last ``PROBE`` line.

    A probe that prints none (it crashed, hung or was killed by what it opened) is itself a fact:
    ``{"probe_failed": status}``.
    """
    with workspace.copy() as scratch:
        result = sandbox.run(scratch, source, limits, seed=0)
        if result.status == "timeout":  # a busy host looks like a file that hangs: ask once more
            result = sandbox.run(scratch, source, limits, seed=0)
    for line in reversed(result.stdout.splitlines()):
        if line.startswith(_MARK):
            try:
                facts = json.loads(line[len(_MARK) :])
            except (ValueError, RecursionError):
                break
            if isinstance(facts, dict):
                return facts
    return {"probe_failed": result.status}
