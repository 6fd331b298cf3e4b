"""``mappa-env doctor``: what this machine has, what it lacks, and the remedy."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from mappa_env import __version__
from mappa_env.commands.listing import tasks_of
from mappa_env.data.store import data_root
from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.registration import find_card, shipped
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.sandbox.local.ladder import remedy

NEEDED = ("numpy", "gymnasium", "pettingzoo", "pydantic", "Jinja2", "PyYAML", "rich", "math-verify", "pandas",
          "scikit-learn")  # fmt: skip
OPTIONAL = {
    "torch": "pip install 'mappa[rl]' to train",
    "transformers": "pip install 'mappa[rl]' to train",
    "deepspeed": "pip install 'mappa[rl]' to train",
    "matplotlib": "pip install 'mappa[rl]' for reports with figures",
    "tensorboard": "pip install 'mappa[rl]' to watch runs",
}


class Finding(NamedTuple):
    """One line: ``level`` is ok, note (something is left out) or problem (something will fail)."""

    subject: str
    level: str
    text: str


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor", help="check Python, packages, sandbox and data; exit status 1 on a problem"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    table = Table("what", "", "finding", title=f"mappa {__version__}")
    colors = {"ok": "green", "note": "yellow", "problem": "red"}
    problems = 0
    for finding in findings():
        problems += finding.level == "problem"
        table.add_row(finding.subject, f"[{colors[finding.level]}]{finding.level}", finding.text)
    Console().print(table)
    return 1 if problems else 0


def findings() -> Iterator[Finding]:
    """Everything worth knowing, each with its remedy."""
    python = platform.python_version()
    yield Finding("python", "ok", f"{python} on {platform.system()} {platform.machine()}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("cores", "ok", f"{cores} usable: so many actions can run code at once")
    yield from _packages()
    yield from _sandbox()
    yield Finding("data folder", "ok", f"{data_root()} (MAPPA_DATA chooses another)")
    for name in shipped():
        card = find_card(name)
        tasks = tasks_of(card)
        level = "note" if "mappa-env data add" in tasks else "ok"
        yield Finding(f"tasks of {card.id}", level, tasks)


def _packages() -> Iterator[Finding]:
    for name in NEEDED:
        version = _version(name)
        if version:
            yield Finding(name, "ok", version)
        else:
            yield Finding(name, "problem", f"missing: pip install '{name}'")
    for name, advice in OPTIONAL.items():
        version = _version(name)
        yield Finding(name, "ok" if version else "note", version or f"missing: {advice}")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _sandbox() -> Iterator[Finding]:
    """Run one line of code in the default sandbox and say how far it can be trusted."""
    sandbox = LocalSandbox()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SandboxWarning)  # the finding says it
            rung = sandbox.rung
    except SandboxError as error:
        yield Finding("sandbox", "problem", str(error))
        return
    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "", Limits())  # the first one starts the zygote
        result = sandbox.run(workspace, "print(6 * 7)", Limits())
    if result.status != "ok" or result.stdout.strip() != "42":
        reason = (result.stderr or result.stdout).strip()[-300:]
        yield Finding("sandbox", "problem", f"{sandbox.name}: {result.status}: {reason}")
        return
    text = f"{sandbox.name}: works, {result.wall_s * 1000:.0f} ms for one line; isolation={result.isolation}"
    if rung.reason:
        text += f"\nnot 'full', because {rung.reason}\n{remedy()}"
    yield Finding("sandbox", "note" if rung.reason else "ok", text)
    if skipped := rung.template.skipped:
        yield Finding("loaded in advance", "ok", f"all but {', '.join(sorted(skipped))} (not installed)")
