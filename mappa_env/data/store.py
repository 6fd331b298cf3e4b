"""The store of added data: ``$MAPPA_DATA``, or ``~/.local/share/mappa``; one folder per name.

Beside the data of a split lies its record, ``<split>.added.json``: what was added from where, with digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, overload

from mappa_env.data.files import regular
from mappa_env.errors import DataError, DataMissingError, OptionError, nearest
from mappa_env.json_and_yaml import read_json
from mappa_env.places import data_root

SPLITS = ("train", "eval")
_RECORD = ".added.json"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A task that is in the user's files but not in the set.

    ``where``: file and row, or the name of the task. ``repeated``: it repeats one that is in the set.
    """

    where: str
    reason: str
    repeated: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was when it was added: ``size`` in bytes and hexadecimal SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Added:
    """An added split: ``tasks`` of them at ``path``, from ``source``, in ``files`` (by absolute path)."""

    name: str
    split: str
    path: Path
    source: Path
    tasks: int
    left_out: tuple[LeftOut, ...] = ()
    files: Mapping[str, FileState] | None = None
    corrected: tuple[str, ...] = ()
    """What the source says wrongly about its tasks, and what counts instead."""
    noted: tuple[str, ...] = ()
    """What is odd about its tasks, for which nothing was changed."""

    @property
    def digest(self) -> str:
        """SHA-256 of the file, or of the sorted ``<sha256>  <path below the source>`` lines of several."""
        states = self.files or {}
        if len(states) == 1:
            return next(iter(states.values())).sha256
        lines = sorted(f"{one.sha256}  {_below(self.source, path)}\n" for path, one in states.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def problems(self, *, contents: bool = False) -> Iterator[str]:
        """The files that are missing or have changed, by their size or, with ``contents``, their digest."""
        for path, before in (self.files or {}).items():
            try:
                now = state_of(Path(path)) if contents else None
                size = os.path.getsize(path)
            except OSError as error:
                yield f"{path}: {error.strerror or error}"
                continue
            if size != before.size or (now is not None and now.sha256 != before.sha256):
                yield f"{path} has changed since it was added; add it again"


def state_of(path: Path) -> FileState:
    """Size and digest of a file, read in blocks. Raises OSError."""
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        return FileState(stream.tell(), sha256)


def record(  # noqa: PLR0913  (the fields of one record)
    name: str,
    split: str,
    path: Path,
    *,
    source: Path,
    tasks: int,
    left_out: Iterable[LeftOut] = (),
    files: Iterable[Path] = (),
    corrected: Iterable[str] = (),
    noted: Iterable[str] = (),
) -> Added:
    """Write the record of a split whose data lie in ``files``, and return it."""
    states = {str(each.absolute()): state_of(each) for each in files}
    added = Added(
        name,
        split,
        path,
        source.absolute(),
        tasks,
        tuple(left_out),
        states,
        corrected=tuple(corrected),
        noted=tuple(noted),
    )
    document = asdict(added) | {"path": str(added.path), "source": str(added.source), "digest": added.digest}
    write(record_of(name, split), json.dumps(document, indent=1) + "\n")
    return added


def record_of(name: str, split: str) -> Path:
    """The file of a split's record."""
    return data_root() / name / f"{split}{_RECORD}"


def recorded(name: str | None = None) -> list[Added]:
    """The records of the store, sorted; of one ``name`` only, if given. Raises DataError."""
    return [read_record(path) for path in record_paths(name)]


def record_paths(name: str | None = None) -> list[Path]:
    """The files of the records, sorted; of one ``name`` only, if given."""
    return sorted(data_root().glob(f"{name or '*'}/*{_RECORD}"))


def read_record(path: Path) -> Added:
    """The record in a file. Raises DataError."""
    try:
        document = read_json(regular(path).read_bytes())
        return Added(
            name=path.parent.name,
            split=path.name.removesuffix(_RECORD),
            path=Path(document["path"]),
            source=Path(document["source"]),
            tasks=int(document["tasks"]),
            left_out=tuple(LeftOut(**each) for each in document["left_out"]),
            files={key: FileState(**state) for key, state in document["files"].items()},
            corrected=tuple(map(str, document.get("corrected", ()))),
            noted=tuple(map(str, document.get("noted", ()))),
        )
    except (OSError, ValueError, ArithmeticError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not a record of added data ({error}); add the data again.") from None


def write(target: Path, text: str) -> None:
    """Write atomically: a reader never sees half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, suffix=".part", delete=False
    ) as part:
        try:
            part.write(text)
            part.close()
            os.replace(part.name, target)
        except BaseException:
            os.unlink(part.name)
            raise


def is_split(split_or_path: str) -> bool:
    """Whether the argument is a split name, not a path. Raises OptionError if it is neither."""
    if split_or_path in SPLITS:
        return True
    if os.sep in split_or_path or "." in split_or_path:
        return False
    raise OptionError(
        f"tasks={split_or_path!r} is neither a split ({', '.join(SPLITS)}) nor a path."
        + nearest(split_or_path, SPLITS)
    )


@overload
def stored(name: str, split: str, *, missing_ok: Literal[False] = ...) -> Path: ...
@overload
def stored(name: str, split: str, *, missing_ok: bool) -> Path | None: ...
def stored(name: str, split: str, *, missing_ok: bool = False) -> Path | None:
    """The file of a stored split. Raises DataMissingError that names the command to add it."""
    path = data_root() / name / f"{split}.json"
    if os.path.lexists(path):
        return regular(path)
    if missing_ok:
        return None
    flag = "" if split == "train" else f" --split {split}"
    raise DataMissingError(
        f"{name} ({split}) is missing: its texts may not be redistributed. "
        f"Add your copy with: mappa-env data add {name} PATH{flag}"
    )


def _below(source: Path, path: str) -> str:
    """A name of the file that does not depend on where the source lies."""
    return os.path.relpath(path, source) if Path(path).is_relative_to(source) else os.path.basename(path)
