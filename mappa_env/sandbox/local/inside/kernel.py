"""System calls that the standard library lacks. Each raises OSError with the call's name."""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 0x4000, 1 << 18
MS_NOATIME = 1024
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW = -100, 0x1000, 0x8000, 0x100
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC, _MOVE_MOUNT_F_EMPTY_PATH = 1, os.O_CLOEXEC, 4
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same numbers on every architecture
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_pivot_root = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine, -1)
_sched_setattr = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine, -1)
_RESET_ON_FORK = 1
_FIRST = -20
"""The nice value that gives a process most processor time."""


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def syscall(what: str, number: int, *arguments: object) -> int:
    """Make the system call ``number``; ``what`` names it in the error."""
    return _checked(int(_libc.syscall(ctypes.c_long(number), *arguments)), what)


def unshare(flags: int) -> None:
    """Leave namespaces: ``unshare(2)``."""
    _checked(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind ``fd``: ``setns(2)``."""
    _checked(_libc.setns(fd, kind), f"setns({kind:#x})")


def prctl(option: int, *arguments: int) -> int:
    """Change this process: ``prctl(2)``."""
    values = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(option, *values), f"prctl({option})")


def take_short_slices(seconds: float) -> None:
    """Ask for little processor time at once, 0.1 ms to 100 ms, to get it sooner: ``sched_setattr(2)``.

    Where we may, as root, we also come before all others, unless the host itself was started to yield: its
    nice value holds for actions, too. Children inherit neither short slices nor a negative nice value.
    Kernels before 6.12 ignore them, and so do we under another policy than SCHED_OTHER.
    """
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
        return
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for nice in (_FIRST, own) if own <= 0 else (own,):
        value = struct.pack(
            "=IIQiIQQQ", 48, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, round(seconds * 1e9), 0, 0
        )
        try:
            syscall("sched_setattr", _sched_setattr, 0, ctypes.create_string_buffer(value, len(value)), 0)
            return
        except PermissionError:
            if nice == own:
                raise


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system: ``mount(2)``."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
    )
    _checked(result, f"mount {kind or source} on {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    """Detach the mount at ``target``: ``umount2(2)``."""
    _checked(_libc.umount2(target.encode(), flags), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root and move the old root to ``old``: ``pivot_root(2)``."""
    syscall("pivot_root", _pivot_root, ctypes.c_char_p(new.encode()), ctypes.c_char_p(old.encode()))


def clone_tree(path: str, *, recursive: bool = False) -> int:
    """Clone the mount at ``path`` and return the descriptor of the detached tree: ``open_tree(2)``."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW
    flags |= AT_RECURSIVE if recursive else 0
    return syscall(f"open_tree {path}", _OPEN_TREE, AT_FDCWD, ctypes.c_char_p(os.fsencode(path)), flags)


def attach_tree(tree: int, target: str) -> None:
    """Mount a detached tree at ``target``: ``move_mount(2)``."""
    syscall(
        f"move_mount {target}",
        _MOVE_MOUNT,
        tree,
        ctypes.c_char_p(b""),
        AT_FDCWD,
        ctypes.c_char_p(target.encode()),
        _MOVE_MOUNT_F_EMPTY_PATH,
    )


def set_mount_attributes(tree: int, attributes: int, *, recursive: bool = True) -> None:
    """Add ``MOUNT_ATTR_*`` to a mount: ``mount_setattr(2)``."""
    value = ctypes.create_string_buffer(struct.pack("QQQQ", attributes, 0, 0, 0), 32)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    syscall("mount_setattr", _MOUNT_SETATTR, tree, ctypes.c_char_p(b""), flags, value, ctypes.c_size_t(32))


_drop = _libc.prctl
_no_capabilities = ctypes.create_string_buffer(24)
_capability_header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), 8)
with open("/proc/sys/kernel/cap_last_cap") as _file:
    _LAST_CAPABILITY = int(_file.read())


def drop_capabilities(*, bounding: bool) -> None:
    """Drop all capabilities; ``bounding``: also for programs started later (needs CAP_SETPCAP)."""
    if bounding:
        for capability in range(_LAST_CAPABILITY + 1):
            _checked(_drop(PR_CAPBSET_DROP, capability, 0, 0, 0), "capability bounding set")
    _checked(_libc.capset(_capability_header, _no_capabilities), "capset")
