"""Previews the first bytes of an untrusted file: text, a CSV's first rows, a pickle's global names."""

from __future__ import annotations

import csv
import pickletools
from collections.abc import Iterator
from dataclasses import dataclass

from mappa_env.workspace.escaping import shown

MAX_LINES = 20
MAX_LINE = 200
MAX_CELLS = 40
MAX_CELL = 40
MAX_OPCODES = 20_000
MAX_GLOBALS = 50
MAX_GLOBAL = 200
_PICKLES = (".pkl", ".pickle", ".joblib")


@dataclass(frozen=True, slots=True)
class Preview:
    """``kind`` is ``csv``, ``pickle``, ``text`` or ``binary``; ``lines`` are printable and of bounded size.

    For a CSV the lines are its rows, with cells separated by ``" | "``; for a pickle, the sorted global names
    that loading it would import; for a binary file, its first bytes in hex. ``size`` is in bytes.
    """

    path: str
    kind: str
    size: int
    lines: tuple[str, ...]


def preview(path: str, head: bytes, size: int) -> Preview:
    """Preview a file of ``size`` bytes that starts with ``head``. Never raises."""
    name = path.lower()
    if name.endswith(_PICKLES):
        return Preview(path, "pickle", size, tuple(sorted(set(_globals(head)))))
    if b"\0" in head:
        return Preview(path, "binary", size, (head[:32].hex(" "),))
    text = head.decode("utf-8", "replace")
    lines = text.splitlines()[:MAX_LINES]
    if name.endswith((".csv", ".tsv")):
        return Preview(path, "csv", size, tuple(_rows(lines, "\t" if name.endswith(".tsv") else ",")))
    return Preview(path, "text", size, tuple(shown(line[:MAX_LINE]) for line in lines))


def _rows(lines: list[str], delimiter: str) -> Iterator[str]:
    try:
        for row in csv.reader(lines, delimiter=delimiter):
            cells = [shown(cell[:MAX_CELL]) for cell in row[:MAX_CELLS]]
            yield " | ".join(cells) + (f" | ... {len(row)} columns" if len(row) > MAX_CELLS else "")
    except csv.Error as error:
        yield f"(no CSV from here: {error})"


def _globals(head: bytes) -> Iterator[str]:
    """Names that a pickle would import, as far as its opcodes show without running them."""
    strings: list[str] = []  # the last two are the operands of STACK_GLOBAL
    memo: dict[int, str] = {}
    found = 0
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(head)):
            name = ""
            if opcode.name in ("GLOBAL", "INST"):
                name = str(argument).replace(" ", ".")
            elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
                name = ".".join(strings[-2:])
            elif opcode.name == "MEMOIZE":
                memo[len(memo)] = strings[-1] if strings else ""
            elif opcode.name in ("BINPUT", "LONG_BINPUT", "PUT") and strings:
                memo[argument or 0] = strings[-1]
            elif opcode.name in ("BINGET", "LONG_BINGET", "GET"):
                strings.append(memo.get(argument or 0, ""))
            elif isinstance(argument, str):
                strings.append(argument[:MAX_GLOBAL])
            if name:
                yield shown(name[:MAX_GLOBAL])
                found += 1
            if count >= MAX_OPCODES or found >= MAX_GLOBALS:
                return
    except (ValueError, IndexError, OverflowError):  # truncated by the limit, or not a pickle
        return
