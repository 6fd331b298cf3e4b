"""Small runs of ``demo`` as processes of their own, here or on a cluster that the caller has started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from mappa_rl.telemetry.sinks import read_metrics
from tiny_run import TINY

CLI = (sys.executable, "-m", "mappa_rl.cli", "train")
LIMIT_S = 150.0


def begun(out: Path, overrides: Sequence[str]) -> subprocess.Popen[str]:
    """A run that saves every step and says what it does on its standard output."""
    words = [*CLI, "demo", *TINY, "run.checkpoint_every=1", *overrides, f"out={out}"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def on(cluster: Any) -> tuple[str, ...]:
    """The overrides of a run on that cluster."""
    return ("cluster=ray", f"cluster.address={cluster.address}", "cluster.env_cpus=0.5")


def finished(process: subprocess.Popen[str]) -> str:
    """What a run has said, once it has ended well."""
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    return said


def learned(out: Path) -> list[dict[str, float]]:
    """The metrics of a run, without what the clock gives."""
    rows = read_metrics(out)
    return [{k: v for k, v in row.items() if not k.startswith(("time", "tokens_per_s"))} for row in rows]


KINDS = ("EnvWorker", "CoachService", "Follower", "CrewActor", "EngineHost")
"""The classes of a run's actors. Ray's own agents have such titles, too, and a node dies with them."""


def actors_named(title: str) -> list[psutil.Process]:
    """The actors whose process has that title, a class or its call, on nodes that this process has started.

    To ask Ray takes seconds, in which a small run ends.
    """
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "".join(process.cmdline()[:1]).startswith(f"ray::{title}"):
                found.append(process)
    return found
