"""Runs a command as an unprivileged user who can read this interpreter and this project.

Usage, as root: ``python as_nobody.py COMMAND...``. In its own mount namespace, it covers parent folders that
are closed to others (mode 0700, like root's home) with empty ones that contain only what is needed. Copies
nothing and changes no mode. Exits with CLOSED if the files are still not readable.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

NOBODY = 65534
CLOSED = 77
_NEWNS, _BIND, _REC, _PRIVATE = 0x20000, 4096, 0x4000, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def needed() -> list[Path]:
    """The paths of the project, and of the interpreter with its packages."""
    project = Path(__file__).resolve().parents[2]
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    return sorted({project, *prefixes, Path(sys.prefix), Path(sys.executable).resolve().parent})


def uncover(paths: Iterable[Path]) -> None:
    """Make ``paths`` reachable for every user. Raises OSError."""
    _check(_libc.unshare(_NEWNS), "unshare")
    _check(_libc.mount(b"none", b"/", None, _REC | _PRIVATE, None), "make mounts private")
    handles = {path: os.open(path, os.O_PATH) for path in paths}
    for path, handle in handles.items():
        there = [above for above in reversed(path.parents) if above.exists()]
        closed = next((above for above in there if not above.stat().st_mode & 0o1), None)
        if closed is not None:
            _check(_libc.mount(b"tmpfs", os.fsencode(closed), b"tmpfs", 0, b"mode=755"), f"cover {closed}")
        if not path.exists():
            path.mkdir(parents=True)
            source, target = f"/proc/self/fd/{handle}".encode(), os.fsencode(path)
            _check(_libc.mount(source, target, None, _BIND | _REC, None), f"bind {path}")
    for handle in handles.values():
        os.close(handle)


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


if __name__ == "__main__":
    os.umask(0o022)
    uncover(needed())
    become(NOBODY)
    if not all(os.access(path, os.R_OK | os.X_OK) for path in needed()) or not os.access(__file__, os.R_OK):
        sys.exit(CLOSED)
    os.chdir(needed()[0])
    os.execv(sys.argv[1], sys.argv[1:])
