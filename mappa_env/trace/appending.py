"""Appends episodes to a trace file, and compresses it when nobody else writes to it."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mappa_env.errors import DataError
from mappa_env.trace.encoding import Encoder
from mappa_env.trace.packing import GZIP, Index, copied, index_and_footer, packable, packed_blocks, tail_of
from mappa_env.trace.recorded import Learned
from mappa_env.types import Trajectory


class Appender:
    """Writes the lines of each episode in one go, so that many processes can share ``path``.

    ``card`` and ``about``: see ``Encoder``. ``packs``: compress the file when it is closed; None: if its name
    ends with ``.gz``. ``writer`` begins the keys of its episodes; empty: something random.
    ``environment``: see ``Encoder``.
    """

    def __init__(
        self,
        path: Path,
        *,
        card: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
        packs: bool | None = None,
        writer: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self._packs = path.suffix == ".gz" if packs is None else packs
        self._encoder = Encoder(writer or secrets.token_hex(4), card, about, environment)
        self._file: int | None = None

    def open(self) -> None:
        """Open the file, which ``append`` does by itself. Raises OSError, DataError."""
        self._open()

    def append(self, trajectory: Trajectory, files: Mapping[str, int] | None = None) -> str:
        """Write one episode; returns its key. ``files``: see ``Encoder.episode``.

        Raises OSError if it cannot be written completely.
        """
        self._open()  # first: a new file has none of the texts that the encoder remembers
        key, lines = self._encoder.episode(trajectory, files)
        self._write(lines)
        return key

    def learned(self, key: str, actions: Sequence[Learned]) -> None:
        """Write what a learner made of the episode ``key``. Raises OSError."""
        self._write(self._encoder.learned(key, actions))

    def close(self) -> None:
        """Close the file; compress it if it should be, unless another process still writes to it."""
        if self._file is None:
            return
        try:
            if self._packs and _alone(self._file):
                pack(self.path)
        finally:
            os.close(self._file)
            self._file = None

    def _write(self, data: bytes) -> None:
        file = self._open()
        if _in_mid_line(file):  # another writer has died, or the disk was full
            data = b"\n" + data
        try:
            written = os.write(file, data)
            if written != len(data):
                short = f"only {written} of {len(data)} bytes could be written"
                raise OSError(errno.ENOSPC, short, str(self.path))
        except OSError:
            self._encoder.forget()  # the file may lack texts of this record
            raise

    def _open(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._encoder.forget()
            file = _opened(self.path)
            if os.pread(file, 2, 0) == GZIP and _foreign(file, os.fstat(file).st_size):
                os.close(file)
                raise DataError(
                    f"{self.path} was compressed by another program, so nothing can be appended to it: "
                    "unpack it with gunzip, or record into another file."
                )
            self._file = file
        return self._file


def pack_alone(path: Path) -> None:
    """Compress a trace unless somebody still writes to it, or it is gone. Raises OSError, DataError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if _alone(file):
            pack(path)
    finally:
        os.close(file)


def pack(path: Path) -> None:
    """Compress the plain lines of a trace; what was compressed stays as it is.

    The new file replaces the old one whole. Nobody else may be writing to it.
    """
    draft = path.with_name(f"{path.name}.packing")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            end, index = tail_of(data, size)
            foreign = index is None and data[:2] == GZIP
            if end == size or foreign or not packable(data, end):
                return
            index = index or Index()
            try:
                with draft.open("wb") as out:
                    copied(file, out, index.end)
                    for block, inside in packed_blocks(data, end, ""):
                        number = len(index.members)
                        index.members.append((index.end, len(block)))
                        index.episodes |= {summary.key: (number, summary) for summary in inside}
                        out.write(block)
                        index.end += len(block)
                    out.write(index_and_footer(index))
                    out.flush()
                    os.fsync(out.fileno())
                draft.chmod(os.fstat(file.fileno()).st_mode & 0o777)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)


def _opened(path: Path) -> int:
    """A descriptor for ``path`` that shares it with other writers, but with nobody who replaces it."""
    import fcntl  # not on every system, and only those who record need it

    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_SH)  # waits for one who packs it, and has replaced it then
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _in_mid_line(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) not in (b"\n", b"\x00")  # 0 ends a footer


def _foreign(file: int, size: int) -> bool:
    with mmap.mmap(file, size, access=mmap.ACCESS_READ) as data:
        return tail_of(data, size)[1] is None


def _alone(file: int) -> bool:
    """Lock a file that no other process has open to write, if so."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
