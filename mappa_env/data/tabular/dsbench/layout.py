"""The columns of a competition: its id, its targets, and what the tables call them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mappa_env.data.tabular.dsbench.release import Files
from mappa_env.errors import DataError

_INDEX = "If that is the index of a pandas table, write all tables without it: to_csv(..., index=False)."


class Layout(NamedTuple):
    """``ids`` and ``targets`` as train.csv names them; ``aliases``: other names in the sample -> these."""

    ids: str
    targets: tuple[str, ...]
    aliases: Mapping[str, str]
    columns: tuple[str, ...]
    """All columns of all tables."""


def layout_of(files: Files) -> Layout:
    """Read the headers. The sample submission decides: its first column is the id, the others the targets.

    Where it names one target that train.csv does not have, the one column of train.csv that is missing in
    test.csv is the target, and both names are understood. Raises DataError.
    """
    train, test, sample = (header_of(path) for path in (files.train, files.test, files.sample))
    if len(sample) < 2:
        raise DataError(f"{files.sample} needs an id column and a target column, found {sample}")
    if nameless := [number for number, name in enumerate(sample, 1) if not name.strip()]:
        raise DataError(
            f"{files.sample}, header: column {nameless[0]} has no name. {_INDEX} If it is an id or a target, "
            "name it in all tables"
        )
    ids, *targets = sample
    aliases: dict[str, str] = {}
    if absent := [name for name in targets if name not in train]:
        only = [name for name in train if name.strip() and name not in test and name != ids]
        if len(targets) != 1 or len(only) != 1:
            raise DataError(f"{files.train} has no column {absent[0]!r}, which {files.sample.name} asks for")
        aliases = {targets[0]: only[0]}
        targets = only
    for path, header in ((files.train, train), (files.test, test), (files.sample, sample)):
        if repeated := [name for name in filter(None, header) if header.count(name) > 1]:
            raise DataError(f"{path} has the column {repeated[0]!r} {header.count(repeated[0])} times")
    if spaced := [name for name in (ids, *targets) if name != name.strip()]:
        raise DataError(f"{files.sample}: the column {spaced[0]!r} has spaces around its name")
    known = {_folded(name): name for name in (*targets, *aliases)}
    for name in test:
        if (target := known.get(_folded(name))) == name:
            index = f". {_INDEX}" if ids.startswith("Unnamed: ") else ""  # as pandas reads it
            raise DataError(f"{files.test} has the target {name!r}: its values are the answers{index}")
        if target is not None:
            raise DataError(
                f"{files.test} has the column {name!r}, which is the target {target!r} but for case or "
                "spaces: its values may be the answers, so rename or remove it"
            )
    hidden = {ids, *targets, *aliases}
    for path, header in ((files.train, train), (files.test, test)):
        if hidden.issuperset(header):
            names = ", ".join(map(repr, header))
            raise DataError(f"{path} has no column but {names}: nothing can be learned")
    if hidden.issuperset(set(train) & set(test)):
        raise DataError(f"{files.train} and {files.test} have no column in common to learn from")
    return Layout(ids, tuple(targets), aliases, tuple(dict.fromkeys((*train, *test, *sample, *targets))))


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()


def header_of(path: Path) -> list[str]:
    """The names of the columns, whatever bytes follow. Raises DataError."""
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            header = next(csv.reader(stream), [])
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}, header: {error}") from None
    if not any(header):
        raise DataError(f"{path} is empty")
    return header


def columns_for(path: Path, wanted: Sequence[str], aliases: Mapping[str, str]) -> list[int]:
    """The positions of ``wanted`` in the answer file, by name, or by position if the names differ.

    Raises DataError.
    """
    header = [aliases.get(name, name) for name in header_of(path)]
    if set(wanted) <= set(header):
        return [header.index(name) for name in wanted]
    if len(header) == len(wanted):
        return list(range(len(wanted)))
    index = "" if header[0].strip() else f". The first has no name. {_INDEX}"
    raise DataError(f"{path} has the columns {header}; the sample submission asks for {list(wanted)}{index}")


def renamed(path: Path, names: Sequence[str]) -> bytes:
    """A CSV file with another header. Raises DataError."""
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: {error}") from None
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows[1:]])
    return text.getvalue().encode()
