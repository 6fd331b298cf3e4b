"""Landlock (Linux 5.13 and later): restricts access to files, and to processes outside the domain.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import struct

from .kernel import syscall

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << n for n in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << n for n in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ = EXECUTE | READ_FILE | READ_DIR
FILE = READ_FILE | WRITE_FILE | TRUNCATE
WRITE = READ | FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER
"""Excludes the right to make links, FIFOs, sockets and devices, so no workspace can contain them."""
_ON_FILES = EXECUTE | FILE | IOCTL_DEV
_FS = ((1, (1 << 13) - 1), (2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
_NET_FROM, _TCP = 4, 3
_SCOPE_FROM, _SCOPES = 6, 3


def version() -> int:
    """The kernel's Landlock ABI version. Raises OSError if Landlock is missing or switched off."""
    return syscall("landlock", _CREATE, None, ctypes.c_size_t(0), 1)


class Ruleset:
    """Denies everything that ``allow`` does not grant. ``restrict`` closes the ruleset."""

    def __init__(self) -> None:
        abi = version()
        self._handled = 0
        for since, rights in _FS:
            self._handled |= rights if abi >= since else 0
        value = struct.pack(
            "QQQ", self._handled, _TCP if abi >= _NET_FROM else 0, _SCOPES if abi >= _SCOPE_FROM else 0
        )
        size = 24 if abi >= _SCOPE_FROM else 16 if abi >= _NET_FROM else 8
        self.fd = syscall(
            "landlock_create_ruleset", _CREATE, ctypes.c_char_p(value), ctypes.c_size_t(size), 0
        )

    def allow(self, path: str, rights: int, *, folder: bool = True) -> None:
        """Grant ``rights`` beneath ``path``; does nothing if the path does not exist."""
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            return
        try:
            allowed = rights & self._handled & (-1 if folder else _ON_FILES)
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, fd), 12)
            syscall(f"landlock_add_rule {path}", _ADD_RULE, self.fd, 1, rule, 0)
        finally:
            os.close(fd)

    def restrict(self) -> None:
        """Confine the calling thread permanently; no_new_privs must be set."""
        syscall("landlock_restrict_self", _RESTRICT, self.fd, 0)
        os.close(self.fd)
