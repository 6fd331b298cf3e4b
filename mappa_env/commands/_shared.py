"""Shared by several subcommands: parsers with hints, options with limits, ``--coach``, JSON output."""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import yaml

from mappa_env.errors import OptionError, nearest

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


def at_least(least: int) -> Callable[[str], int]:
    """A ``type=`` for integers of at least ``least``."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} must be at least {least}")
        return value

    return integer


def spec_option(option: str, text: str) -> str | Mapping[str, Any]:
    """Parse the value of ``option``: a name, or a YAML (or JSON) mapping with a name. Raises OptionError."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OptionError(f"{option} {text!r} is not valid YAML: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise OptionError(f"{option} {text!r} needs a name: '{{name: ..., <option>: <value>}}'.")
    return found


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write ``document``; NaN, a figure that could not be computed, becomes null."""
    path.write_text(json.dumps(_strict(document), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


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
