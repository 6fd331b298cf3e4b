"""The control groups of this process that count memory, and how much memory they leave it."""

from __future__ import annotations

import os
from pathlib import Path

MOUNTS, OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
"""What the kernel says of this process: its mounts, and the cgroups that it is in."""
_LIMITS = {2: "memory.max", 1: "memory.limit_in_bytes"}


def machine_memory(mounts: Path = MOUNTS, own: Path = OWN) -> int:
    """Bytes of memory that this process may use: the machine's, or the least limit of its control groups."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for version, file in _LIMITS.items():
        for place in memory_cgroups(version, mounts, own):
            try:
                text = (place / file).read_text().strip()
            except OSError:  # the root has no limit, and some mounts have no controller
                continue
            limits += [int(text)] if text.isdecimal() else []  # "max": none
    return min(limits)


def memory_cgroups(version: int, mounts: Path = MOUNTS, own: Path = OWN) -> list[Path]:
    """The folders of this process's memory cgroup and of those above it, nearest first.

    ``version``: 1 or 2. Empty where that hierarchy is not mounted, or does not show this process's part.
    """
    try:
        mounted = [line.split() for line in mounts.read_text().splitlines()]
        groups = [line.split(":", 2) for line in own.read_text().splitlines()]
    except FileNotFoundError:  # not Linux
        return []
    kind, controller = ("cgroup2", "") if version == 2 else ("cgroup", "memory")
    mount, path = _mount(mounted, kind, controller), _path(groups, controller)
    if mount is None or path is None or ".." in path.parts or not path.is_relative_to(mount[0]):
        return []
    below = path.relative_to(mount[0])
    return [mount[1] / place for place in (below, *below.parents)]


def _mount(mounted: list[list[str]], kind: str, controller: str) -> tuple[str, Path] | None:
    """The part of a hierarchy that is mounted, and where."""
    for fields in mounted:
        found, _, options = fields[fields.index("-") + 1 :][:3]
        if found == kind and (not controller or controller in options.split(",")):
            return fields[3], Path(fields[4])
    return None


def _path(groups: list[list[str]], controller: str) -> Path | None:
    """The cgroup of this process in the hierarchy with ``controller``; empty: in that of cgroup v2."""
    found = (Path(path) for _, controllers, path in groups if controller in controllers.split(","))
    return next(found, None)
