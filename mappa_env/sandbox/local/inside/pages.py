"""Large pages: a fork copies one entry for 2 MiB of memory instead of 512."""

from __future__ import annotations

import ctypes

_MADV_COLLAPSE = 25
_LARGE = 2 * 2**20
_SIZES = (65536, 16384, 4096, 2048, *range(1024, 0, -16))
_libc = ctypes.CDLL(None, use_errno=True)


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33 and later."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def collapse() -> int:
    """Collapse this process's private memory into large pages (Linux 6.1); returns MiB.

    After a fork the pages are shared with the parent, and every write splits a large page permanently. For a
    process that will fork often, one copy restores the large pages.
    """
    gathered = 0
    with open("/proc/self/maps") as file:
        ranges = [line.split() for line in file]
    for addresses, rights, _, _, inode, *_ in ranges:
        if not rights.startswith("rw-p") or inode != "0":
            continue
        first, last = (int(address, 16) for address in addresses.split("-"))
        for start in range(-(-first // _LARGE) * _LARGE, last - _LARGE + 1, _LARGE):
            if _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(_LARGE), _MADV_COLLAPSE) == 0:
                gathered += 2
    return gathered


def fill_holes() -> int:
    """Fill the free blocks within the heap; returns bytes.

    Later allocations then lie together at the end of the heap. If they were scattered over the holes that the
    imports left, every action would copy hundreds of pages more.
    """
    if not hasattr(_libc, "mallinfo2"):  # another C library, or an old one
        return 0
    _libc.sbrk.restype = _libc.malloc.restype = ctypes.c_void_p
    _libc.mallinfo2.restype = _MallocInfo
    last = _libc.sbrk(ctypes.c_long(0)) - _libc.mallinfo2().keepcost
    taken = 0
    for size in _SIZES:
        while (block := _libc.malloc(ctypes.c_size_t(size))) < last:
            taken += size
        _libc.free(ctypes.c_void_p(block))
    return taken
