"""What the labels of y_train, and the answers of a model, are to the labels of train.csv."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mappa_env.errors import WorkspaceError
from mappa_env.grading.spelling import Labels
from mappa_env.probes.association import Column
from mappa_env.probes.csv_table import CsvTable
from mappa_env.probes.inside.exporter import MAX_TEXT, bounded
from mappa_env.probes.plain import Table
from mappa_env.probes.unpacking import contents
from mappa_env.workspace.workspace import Workspace

TABLES = ("X_train.pkl", "X_test.pkl")
LABELS, MODEL = "y_train.pkl", "model.pkl"
_LARGEST_CODING, _LARGEST_MODEL = 2**20, 2**24
_LARGEST_UNPACKED, _MOST_UNPACKED = 2**23, 2**25
"""Bytes that are unpacked of one file, and of all."""
_MOST_NAMES, _MOST_PLACES = 50, 1000
_WORD = re.compile(r"[^\s\"',:;=(){}\[\]<>|]+")
_SURE = 0.9
"""The least share of rows that go together with what a code stands for."""
_LEAST_NAME = 3
"""Letters of a name that does not occur in files by chance."""


class Codings(NamedTuple):
    """Files that tell what codes stand for, and those of which nobody could tell."""

    sure: list[str]
    unclear: list[str]


def labels_of(train: CsvTable, targets: Sequence[str]) -> frozenset[str]:
    """The labels in train.csv; none if its rows are not all at hand."""
    return labels_seen(train, targets) if train.rows == len(train.head) else frozenset()


def labels_seen(train: CsvTable, targets: Sequence[str]) -> frozenset[str]:
    """The labels in the rows of train.csv that are at hand."""
    cells = (cell for name in targets for cell in set(train.column(name).tolist()))
    return frozenset(spelled(cell) for cell in cells if _is_there(cell))


def labels_in(y: Table, places: Iterable[int] | None = None) -> list[str]:
    """The labels of all cells of y_train; ``places``: of these columns."""
    columns = range(len(y.names)) if places is None else places
    return [spelled(cell) for at in columns for cell in y.column(at) if _is_there(cell)]


def share_known(labels: Iterable[str], known: Iterable[str]) -> float | None:
    """The share of ``labels`` that are ``known``, whose spelling decides; None without any."""
    spell, found = Labels(known), Counter(labels)
    right = sum(count for label, count in found.items() if spell(label) in spell.known)
    return round(right / found.total(), 3) if found and spell.known else None


def share_equal(some: Column, others: Column) -> float:
    """The share of rows with equal labels."""
    pairs = Counter(zip(some.tolist(), others.tolist(), strict=True))
    spell = Labels(spelled(cell) for _, cell in pairs)
    equal = sum(count for (a, b), count in pairs.items() if spell(spelled(a)) == spell(spelled(b)))
    return round(equal / max(1, pairs.total()), 3)


def codes_of(y: Table, targets: Sequence[str], train: CsvTable) -> dict[str, str]:
    """Which label of train.csv each code of y_train stands for, as their rows tell.

    Codes may be labels themselves, of other rows. Empty: it holds the labels of its rows, rows were dropped
    or moved, or two codes share a label.
    """
    if len(targets) != 1 or y.rows != train.rows or not y.names:
        return {}
    most = min(len(train.head), y.kept)
    cells = zip(y.column(0)[:most].tolist(), train.column(targets[0])[:most].tolist(), strict=True)
    pairs = Counter((spelled(a), spelled(b)) for a, b in cells if _is_there(a) and _is_there(b))
    spell = Labels(label for _, label in pairs)
    often = dict(sorted(pairs, key=pairs.__getitem__))  # of each code, the most frequent pair comes last
    sure = sum(pairs[pair] for pair in often.items()) >= _SURE * pairs.total()
    if all(spell(code) == spell(label) for code, label in often.items()):
        return {}
    return often if sure and len(set(often.values())) == len(often) else {}


def answers_in(predictions: NDArray[Any], *, ranked: bool = False) -> list[str]:
    """The labels that a model answers; none where it answers with numbers or several columns.

    ``ranked``: an answer may be a list of them, separated by spaces.
    """
    if predictions.shape[1] != 1:
        return []
    cells = predictions[:, 0]
    if cells.dtype.kind == "f" and not (np.isfinite(cells) & (cells == np.round(cells))).all():
        return []
    answers = [spelled(cell) for cell in cells.tolist()]
    return [label for answer in answers for label in answer.split()] if ranked else answers


def codings(workspace: Workspace, y: Table | None, labels: Iterable[str], rows: int | None) -> Codings:
    """The files of agents that tell what codes stand for: they name all of ``labels`` that y_train needs.

    ``y``: y_train, if it can be read; ``rows``: of train.csv. Names that are numbers or very short leave no
    trace in bytes that are no text; a text has them as words.
    """
    known, mine = set(labels), set() if y is None else set(labels_in(y))
    wanted = mine if mine and (not known or mine <= known) else known
    names = [label for label in sorted(wanted) if not is_number(label)][:_MOST_NAMES]
    least = len(names)
    if y is not None and y.rows != rows:  # which names were dropped with rows, codes do not tell
        least = min(least, len(mine))
    clear = any(len(name) >= _LEAST_NAME for name in names)
    sure, unclear, left = [], [], _MOST_UNPACKED
    for path, entry in workspace.present.items():
        made = path in (MODEL, LABELS)
        most = _LARGEST_MODEL if made else _LARGEST_CODING
        if not entry.agent or entry.kind != "file" or entry.size > most or path in TABLES:
            continue
        if not clear and made:
            continue
        try:
            content = workspace.read(path, most)
        except WorkspaceError:
            continue
        if not clear:
            unclear += [path] if _may_name(content, wanted) else []
            continue
        for each in contents(content, min(_LARGEST_UNPACKED, left)):
            left -= 0 if each is content else len(each)
            holds = _holds_text if made else _holds
            if sum(holds(each, name) for name in names) >= least:
                sure.append(path)
                break
    return Codings(sure, unclear)


def _may_name(content: bytes, labels: Iterable[str]) -> bool:
    """Whether a text has all ``labels`` as words. True for what is no text."""
    try:
        words = set(map(as_cell, _WORD.findall(content.decode())))
    except UnicodeDecodeError:
        return True
    spell = Labels(labels)
    return spell.known <= set(map(spell, words))


def as_cell(word: str) -> str:
    """A label as ``spelled`` has it, given as a program prints it."""
    return spelled(float(word)) if is_number(word) and word not in ("True", "False") else word


def _holds(content: bytes, name: str) -> bool:
    escaped = json.dumps(name)[1:-1].encode()
    return escaped in content or any(name.encode(kind) in content for kind in ("utf-8", "utf-32-le"))


def _holds_text(content: bytes, name: str) -> bool:
    """Whether a pickle holds the text as a whole: other labels may be made from it, such as ``class a``."""
    plain, wide = name.encode(), name.encode("utf-32-le")
    size = len(plain)
    if any(
        start + plain in content for start in (bytes((0x8C, size % 256)), b"X" + size.to_bytes(4, "little"))
    ):
        return True
    at = content.find(wide)
    for _ in range(_MOST_PLACES):  # in an array, which fills texts with zeros
        if at < 0:
            return False
        end = at + len(wide)
        # A letter before it follows another one or zeros, which a length in a pickle does not.
        follows = _is_wide(content[max(0, at - 4) : at]) and content[max(0, at - 5) : at - 4] == b"\0"
        if not follows and not _is_wide(content[end : end + 4]):
            return True
        at = content.find(wide, at + 1)
    return False


def _is_wide(cell: bytes) -> bool:
    """Whether four bytes are a printable letter of UTF-32."""
    return cell[2:] == b"\0\0" and chr(int.from_bytes(cell, "little")).isprintable()


def is_number(cell: str) -> bool:
    """Whether a text is a number, which ``nan`` is not, or a truth value."""
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return cell in ("True", "False")


def _is_there(cell: Any) -> bool:
    return cell is not None and cell == cell


def spelled(cell: Any) -> str:
    """A label as text: numbers in nine digits, whatever type a program gave them."""
    return f"{cell:.9g}" if isinstance(cell, float) else bounded(str(cell).strip(), MAX_TEXT)
