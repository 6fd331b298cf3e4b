"""``mappa-env doctor``: checks what works on this machine, and names remedies for what does not."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mappa_env import __version__
from mappa_env.commands._shared import command
from mappa_env.commands.listing import splits_of
from mappa_env.data.adding import readable
from mappa_env.errors import DataError, DataMissingError, SandboxError, SandboxWarning
from mappa_env.places import data_root
from mappa_env.registration import find_card, shipped
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.sandbox.local.isolation_levels import remedy

NEEDED = (
    "numpy",
    "gymnasium",
    "pettingzoo",
    "pydantic",
    "Jinja2",
    "PyYAML",
    "rich",
    "requests",
    "scipy",
    "math-verify",
    "pandas",
    "scikit-learn",
    "bm25s",
)
OPTIONAL = {
    "torch": "pip install 'mappa[rl]' to train",
    "transformers": "pip install 'mappa[rl]' to train",
    "deepspeed": "pip install 'mappa[rl]' to train",
    "matplotlib": "pip install 'mappa[rl]' for reports with figures",
    "mcp": "pip install 'mappa[mcp]' for tools of MCP servers",
    "starlette": "pip install 'mappa[serve]' to serve environments over HTTP",
    "uvicorn": "pip install 'mappa[serve]' to serve environments over HTTP",
    "tensorboard": "pip install 'mappa[rl]' to watch runs",
}


class Diagnosis(NamedTuple):
    """One finding: ``level`` is ok, note (optional) or problem (something will fail)."""

    subject: str
    level: str
    text: str


def add(commands: Any) -> None:
    """Add ``doctor`` to ``commands``."""
    command(commands, "doctor", run, "check Python, packages, sandbox and data; exit status 1 on a problem")


def run(args: argparse.Namespace) -> int:
    """Print the table. Returns 1 if there is a problem, else 0."""
    table = Table("what", "", "finding", title=f"mappa {__version__}")
    colors = {"ok": "green", "note": "yellow", "problem": "red"}
    problems = 0
    for line in diagnoses():
        problems += line.level == "problem"
        table.add_row(line.subject, f"[{colors[line.level]}]{line.level}", escape(line.text))
    Console().print(table)
    return 1 if problems else 0


def diagnoses() -> Iterator[Diagnosis]:
    """Python, packages, sandbox, data folder and tasks; each problem with its remedy."""
    python = platform.python_version()
    yield Diagnosis("python", "ok", f"{python} on {platform.system()} {platform.machine()}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Diagnosis("cores", "ok", f"{cores} usable; that many actions can run code at once")
    yield from _packages()
    yield from _sandbox()
    yield Diagnosis("data folder", "ok", f"{data_root()} (MAPPA_DATA chooses another)")
    for name in shipped():
        card = find_card(name)
        found = splits_of(card)
        bad = any(isinstance(each, DataError) for each in found.values())
        absent = any(isinstance(each, DataMissingError) for each in found.values())
        text = "\n".join(f"{split}: {each}" for split, each in found.items())
        yield Diagnosis(f"tasks of {card.id}", "problem" if bad else "note" if absent else "ok", text)
    yield from _added()


def _added() -> Iterator[Diagnosis]:
    """The added tasks, whose files are looked at but not read; ``mappa-env data verify`` reads them."""
    try:
        for added in readable():
            problems = list(added.problems())
            text = "\n".join(problems[:3]) or f"{added.tasks} tasks, {len(added.left_out)} left out"
            yield Diagnosis(f"added: {added.name} {added.split}", "problem" if problems else "ok", text)
    except DataError as error:
        yield Diagnosis("added tasks", "problem", str(error))


def _packages() -> Iterator[Diagnosis]:
    for name in NEEDED:
        version = _version(name)
        if version:
            yield Diagnosis(name, "ok", version)
        else:
            yield Diagnosis(name, "problem", f"missing: pip install '{name}'")
    for name, advice in OPTIONAL.items():
        version = _version(name)
        yield Diagnosis(name, "ok" if version else "note", version or f"missing: {advice}")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _sandbox() -> Iterator[Diagnosis]:
    """Run one line of code in the default sandbox and report its isolation level."""
    sandbox = LocalSandbox()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SandboxWarning)  # the finding says the same
            level = sandbox.level
    except SandboxError as error:
        yield Diagnosis("sandbox", "problem", str(error))
        return
    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "", Limits())  # the first one starts the zygote
        result = sandbox.run(workspace, "print(6 * 7)", Limits())
    if result.status != "ok" or result.stdout.strip() != "42":
        reason = (result.stderr or result.stdout).strip()[-300:]
        yield Diagnosis("sandbox", "problem", f"{sandbox.name}: {result.status}: {reason}")
        return
    text = f"{sandbox.name}: works, {result.wall_s * 1000:.0f} ms for one line; isolation={result.isolation}"
    if level.reason:
        text += f"\nnot 'full', because {level.reason}\n{remedy()}"
    elif not level.template.unnamed:
        text += (
            "\nactions see the names of MAPPA's files, though not their contents: overlayfs does not work "
            "over the folders that hold them (docs/sandbox.md, What shows of this project)"
        )
    noted = level.reason or not level.template.unnamed
    yield Diagnosis("sandbox", "note" if noted else "ok", text)
    if skipped := level.template.skipped:
        yield Diagnosis("loaded in advance", "ok", f"all but {', '.join(sorted(skipped))} (not installed)")
