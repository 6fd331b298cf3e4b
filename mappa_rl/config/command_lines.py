"""A run's command lines, recorded in its folder."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mappa_env.json_and_yaml import read_json
from mappa_rl.errors import RunError

COMMANDS = "commands.jsonl"
PROGRAM = "mappa-rl"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One command and the local time at which it began."""

    command: str
    started: str


def record_command(out: Path, argv: Sequence[str] = ()) -> None:
    """Append a command line, by default this process's, to the run's record.

    A child process that works on a planned run adds nothing: its parent's command is already recorded.
    """
    name, *words = argv or sys.argv
    line = CommandLine(shlex.join([Path(name).name, *words]), time.strftime("%Y-%m-%d %H:%M:%S"))
    known = read_commands(out)
    if known and (Path(name).name != PROGRAM or line.command == known[-1].command):
        return
    out.mkdir(parents=True, exist_ok=True)
    with (out / COMMANDS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def read_commands(out: Path) -> list[CommandLine]:
    """The commands of the run in ``out``, oldest first. Raises RunError for a damaged file."""
    path = out / COMMANDS
    if not path.is_file():
        return []
    try:
        return [CommandLine(**read_json(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}): remove it to continue.") from None
