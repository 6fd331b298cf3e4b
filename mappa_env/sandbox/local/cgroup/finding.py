"""Where this process may make leaves."""

from __future__ import annotations

import os
from pathlib import Path

from mappa_env.sandbox.local.cgroup.leaf import Leaf, Leaves
from mappa_env.sandbox.local.cgroup.v1 import LeafV1
from mappa_env.sandbox.local.cgroup.v2 import LeafV2


def find(mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")) -> Leaves | None:
    """Leaves in the nearest cgroup above this process that can hold some; None without one.

    With cgroup v2 a cgroup that contains processes cannot enable controllers for its children. So start this
    process in a subgroup of the delegated cgroup (systemd: Delegate=yes, DelegateSubgroup=main).
    """
    mounted = [line.split() for line in mounts.read_text().splitlines()]
    groups = [line.split(":", 2) for line in own.read_text().splitlines()]
    for kind, mount, path in (
        (LeafV2, _mount(mounted, "cgroup2", ""), _path(groups, "")),
        (LeafV1, _mount(mounted, "cgroup", "memory"), _path(groups, "memory")),
    ):
        for place in _places(mount, path):
            if leaves := _usable(place, kind):
                return leaves
    return None


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


def _places(mount: tuple[str, Path] | None, path: Path | None) -> list[Path]:
    """The folders of the cgroup ``path`` and of those above it, nearest first."""
    if mount is None or path is None or ".." in path.parts or not path.is_relative_to(mount[0]):
        return []
    below = path.relative_to(mount[0])
    return [mount[1] / place for place in (below, *below.parents)]


def _usable(place: Path, kind: type[Leaf]) -> Leaves | None:
    if not os.access(place / "cgroup.procs", os.W_OK):  # required for moving processes into a leaf
        return None
    try:
        leaves = Leaves(place, kind)
    except OSError:
        return None
    try:
        leaves.new(memory_bytes=1 << 30, processes=8).remove()
    except OSError:
        leaves.close()
        return None
    return leaves
