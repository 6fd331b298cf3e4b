"""Files of agents that may tell how numbers on another scale came about, or how to undo it.

They name what was done (``log1p``, ``inverse``), or hold the numbers that it takes (the mean, the factor).
Their bytes are searched, and nothing is opened: pickles hold the names of classes and functions, too.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from posixpath import basename

import numpy as np

from mappa_env.errors import WorkspaceError
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.formats import HEAD, format_of
from mappa_env.probes.labels import LABELS, MODEL, TABLES, is_number
from mappa_env.probes.plain import Table
from mappa_env.probes.scale import scale_of
from mappa_env.probes.unpacking import contents
from mappa_env.workspace.workspace import Workspace

_LARGEST, _LARGEST_UNPACKED = 2**20, 2**23
_LINEAR = 1e-3
"""The largest distance from a line, in standard deviations, of numbers that were shifted and stretched."""
_CLOSE = 1e-3
"""Numbers that people write are rounded."""
_EXACT = 5
"""Of the 8 bytes of a number, those that do not depend on how a sum was rounded."""
_MOST_NUMBERS = 10_000
_NAMES = re.compile(
    r"(?<![a-z])(?:log|ln|exp)(?![a-z])|log1p|expm1|logarit|exponent|boxcox|(?<![a-z])(?:box.?cox|yeo|pow|rank|quantile|"
    r"sqrt|cbrt|root|wurzel|racine|squar|quadrat|a?r?c?sinh|recipro|inver[st]|lambda|lmbda)|[\w)]\*\*[-\d(]|\^[-\d({]"
)
_NAMES_OF_LINES = re.compile(
    r"(?:scal|skal|standard|z.?score|norm|min.?max|divid|multi[p]|factor|minus|negat|thousand|tausend|million|inver[st])|"
    r"[-*/+]\s?(?:y|p|pred|target)\b|\b(?:y|p|pred|target)\s?[-*/+]\s?[\w(]"
)
_ALL_NAMES = re.compile(f"{_NAMES.pattern}|{_NAMES_OF_LINES.pattern}")
"""Ranks do not tell a line from a curve."""
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?(?:e[-+]?\d{1,3})?")
_OTHER_SCRIPTS = re.compile("[\u0370-\uffff]{2}")
"""Words of which this module knows none."""
_SEARCHED = frozenset(("pickle", "npy", "npz", "zip", "JSON", "UBJSON"))


def scalings(workspace: Workspace, y: Table, targets: list[str], train: CsvTable) -> list[str]:
    """Their paths; y_train too, if the name of a column tells. Empty if it is on no other scale.

    Where several columns are on other scales, a file has to tell of one.
    """
    found = scale_of(y, targets, train)
    if found is None or not found.others:
        return []
    kinds, numbers = set[re.Pattern[str]](), list[float]()
    for target, scale in zip(targets, found.each, strict=True):
        if scale is None:
            continue
        with np.errstate(all="ignore"):  # numbers of any size: those that overflow tell nothing
            slope, start = np.polyfit(scale.given, scale.mine, 1)
            away = scale.mine - (slope * scale.given + start)
            linear = bool(np.abs(away).max() <= _LINEAR * np.std(scale.mine))
            numbers += _parameters(train.column(target), slope if linear or scale.by_rank else 0.0)
        kinds.add(_ALL_NAMES if scale.by_rank else _NAMES_OF_LINES if linear else _NAMES)
    known = kinds.pop() if len(kinds) == 1 else _ALL_NAMES
    telling = []
    for path, entry in workspace.present.items():
        if not entry.agent or entry.kind != "file" or not entry.size or path in (*TABLES, MODEL, LABELS):
            continue
        if entry.size > _LARGEST or _tells(workspace, path, known, numbers):
            telling.append(path)
    names = [
        (y.names[place].lower(), name.lower()) for name, place in zip(targets, found.places, strict=True)
    ]
    own = any(set(known.findall(mine)) - set(known.findall(given)) for mine, given in names)
    return [*telling, *([LABELS] if own else [])]


def shift_notes(workspace: Workspace, codes: Mapping[str, str]) -> list[str]:
    """The texts of agents that may tell by what number labels were shifted, which they name or hold.

    ``codes``: code -> label. Empty if they are no numbers, or differ from their labels by several amounts.
    """
    if not codes or not all(map(is_number, (*codes, *codes.values()))):
        return []
    shifts = {round(float(label) - float(code), 9) for code, label in codes.items()}
    if len(shifts) != 1 or 0 in shifts:
        return []
    telling = []
    for path, entry in workspace.present.items():
        if not entry.agent or entry.kind != "file" or path in (*TABLES, MODEL, LABELS):
            continue
        if entry.size <= _LARGEST and _tells(workspace, path, _NAMES_OF_LINES, list(shifts)):
            telling.append(path)
    return telling


def _parameters(given: np.ndarray[tuple[int, ...], np.dtype[np.float64]], slope: float) -> list[float]:
    """The numbers of train.csv by which people shift and stretch."""
    given = given[np.isfinite(given)]
    values = [given.mean(), given.std(), given.std(ddof=1), given.var(), given.min(), given.max()]
    values += [np.ptp(given), np.median(given), *([slope, 1 / slope] if slope else [])]
    return [
        float(value) for value in values if np.isfinite(value) and abs(value) > _CLOSE and abs(value) != 1
    ]


def _tells(workspace: Workspace, path: str, known: re.Pattern[str], numbers: list[float]) -> bool:
    try:
        content = workspace.read(path, _LARGEST)
    except WorkspaceError:
        return True  # nobody can tell
    if known.search(basename(path).rpartition(".")[0].lower()):
        return True
    if _is_other(content):
        return True
    return any(
        known.search(text) or _OTHER_SCRIPTS.search(text) or _holds(each, text, numbers)
        for each in contents(content, _LARGEST_UNPACKED)
        for text in _texts(each)
    )


def _is_other(content: bytes) -> bool:
    """Whether this module cannot search a format: it is no text, and none that holds names as they are."""
    try:
        content.decode()
    except UnicodeDecodeError:
        packed = content.startswith((b"\x1f\x8b", b"\x78", b"BZh", b"\xfd7zXZ", b"\x5d\x00"))
        named = format_of(content[:HEAD])
        pickled = content.startswith(b"\x80") or named != "pickle"
        return not packed and not (pickled and named in _SEARCHED)
    return False


def _texts(content: bytes) -> Iterator[str]:
    """As UTF-8, and without zeros, which wider encodings have."""
    try:
        yield content.decode().lower()
    except UnicodeDecodeError:
        yield content.replace(b"\0", b"").decode("latin-1").lower()


def _holds(content: bytes, text: str, numbers: list[float]) -> bool:
    """Whether one of ``numbers`` is written in a text, or stored in a binary file."""
    for value in numbers:
        packed = struct.pack(">d", value)[:_EXACT]
        if packed in content or packed[::-1] in content:
            return True
    written = np.abs([float(match) for match in _NUMBER.findall(text)[:_MOST_NUMBERS]])
    return any(bool((np.abs(written - abs(each)) <= _CLOSE * abs(each)).any()) for each in numbers)
