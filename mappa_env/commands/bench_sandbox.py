"""``mappa-env bench sandbox``: the latency and throughput of the sandboxes on this machine."""

from __future__ import annotations

from typing import Any

from mappa_env.benchmarking.sandbox.command import arguments, run
from mappa_env.commands._shared import command


def add(commands: Any) -> None:
    """Add ``sandbox`` to the group ``bench``."""
    arguments(
        command(commands, "sandbox", run, "benchmark the sandbox on this machine: latency and throughput")
    )
