"""Shared by several subcommands: parsers with hints, options with limits, ``--coach``, JSON output."""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from mappa_env.errors import OptionError, nearest
from mappa_env.json_and_yaml import json_text, read_yaml
from mappa_env.sandbox import DEFAULT

COACH_HELP = "rubric, gemini:<model>, openai:<model>@<url>, replay:<path>; with options: '{name: ..., ...}'"
_CHOICE = re.compile(r"invalid choice: '(?P<value>[^']*)' \(choose from (?P<choices>.*)\)", re.DOTALL)
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<value>--?[\w-]+)")


class Parser(argparse.ArgumentParser):
    """Raises OptionError with the nearest name instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise OptionError with ``message``, a hint, and the command that prints the help."""
        hint = ""
        if found := _CHOICE.search(message):
            hint = nearest(found["value"], re.findall(r"[\w-]+", found["choices"]))
        elif found := _UNKNOWN.search(message):
            hint = nearest(found["value"], re.findall(r"--[\w-]+", self.format_help()))
        raise OptionError(f"{message.removeprefix('argument ')}.{hint} See '{self.prog} --help'.")

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parse ``argv``. Raises OptionError, naming the subcommand, for an unknown option."""
        args, unknown = self.parse_known_args(argv)
        if unknown:
            args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return args


def command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> Parser:
    """Add the subcommand ``name`` to ``commands``; ``text`` is its help and its description."""
    parser: Parser = commands.add_parser(name, help=text, description=_sentence(text))
    parser.set_defaults(run=run, parser=parser)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" + ("" if text.endswith("?") else ".")


def group(parser: Parser, metavar: str = "command") -> Any:
    """Add subcommands to ``parser``, which prints its help if none is given."""

    def show_help(args: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=show_help, parser=parser)
    return parser.add_subparsers(metavar=metavar)


def command_group(commands: Any, name: str, text: str) -> Any:
    """Add a subcommand with its own subcommands, and return the group."""
    return group(commands.add_parser(name, help=text, description=_sentence(text)))


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """A ``type=`` for integers of at least ``least``, and at most ``most``."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} must be at least {least}")
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{value} must be at most {most}")
        return value

    return integer


def seconds(text: str) -> float:
    """A ``type=`` for a time above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} must be above 0")
    return value


def sandbox_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--sandbox``, whose value is read with ``spec_option``."""
    what = "null runs no code; with options: '{name: ..., ...}' (default: %(default)s)"
    parser.add_argument("--sandbox", default=DEFAULT, metavar="SPEC", help=what)


def spec_option(option: str, text: str) -> str | Mapping[str, Any]:
    """Parse the value of ``option``: a name, or a YAML (or JSON) mapping with a name. Raises OptionError."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        found = read_yaml(text)
    except ValueError as error:
        raise OptionError(f"{option} {text!r} is not valid YAML: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise OptionError(f"{option} {text!r} needs a name: '{{name: ..., <option>: <value>}}'.")
    return found


def check_target(option: str, path: Path | None) -> None:
    """Raises OptionError, before any work, if ``path`` cannot be written."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"lies in {path.parent}, which is not a folder"
        raise OptionError(f"{option} {path} {what}: name a file in a folder that exists.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"{option} {path} may not be written: choose another place.")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write ``document``; a figure that is not finite becomes null."""
    path.write_text(json_text(document) + "\n", encoding="utf-8")


@contextmanager
def sigterm_ends() -> Iterator[None]:
    """SIGTERM raises SystemExit inside the block. Only the main thread can ask for that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
