"""The file that carries an action's code inside, and back the names of the files that the code opened.

Standard library only: this module also runs on servers.
"""

from __future__ import annotations

import os
from types import TracebackType

from mappa_env.sandbox.runner import FIRST, LAST, NOTES, UNSEEN
from mappa_env.workspace.escaping import shown


class ActionFile:
    """A file in memory: room for notes, then the code, which so never appears on a disk or a command line.

    Its size is fixed, so whoever gets hold of it inside cannot fill the host's memory.
    """

    def __init__(self, code: str) -> None:
        """Create it. Raises OSError."""
        import fcntl  # lazy: the module can be imported where there is none

        self.fd = os.memfd_create("action", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            view, at = memoryview(code.encode("utf-8", "replace")), NOTES
            os.ftruncate(self.fd, NOTES)
            while view:
                done = os.pwrite(self.fd, view, at)
                view, at = view[done:], at + done
            seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        except BaseException:
            os.close(self.fd)
            raise

    def __enter__(self) -> ActionFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def opened(self) -> tuple[str, ...] | None:
        """The names noted so far, as in ``ToolResult.opened``; the code may have written anything there."""
        notes = os.pread(self.fd, NOTES, 0)
        if notes[UNSEEN]:
            return None
        end = min(int.from_bytes(notes[:4], "little"), NOTES)
        names = dict.fromkeys(filter(None, notes[FIRST:end].split(b"\0")))
        at = int.from_bytes(notes[LAST], "little")
        if FIRST <= at < end and (last := notes[at:end].partition(b"\0")[0]) in names:
            del names[last]
            names[last] = None
        return tuple(shown(name.decode("utf-8", "surrogateescape")) for name in names)
