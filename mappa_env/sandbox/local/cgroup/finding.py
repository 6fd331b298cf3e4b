"""Where this process may make leaves."""

from __future__ import annotations

import os
from pathlib import Path

from mappa_env.sandbox.local.cgroup.leaf import Leaf, Leaves
from mappa_env.sandbox.local.cgroup.v1 import LeafV1
from mappa_env.sandbox.local.cgroup.v2 import LeafV2
from mappa_env.sandbox.memory import MOUNTS, OWN, memory_cgroups


def find(mounts: Path = MOUNTS, own: Path = OWN) -> Leaves | None:
    """Leaves in the nearest cgroup above this process that can hold some; None without one.

    With cgroup v2 a cgroup that contains processes cannot enable controllers for its children. So start this
    process in a subgroup of the delegated cgroup (systemd: Delegate=yes, DelegateSubgroup=main).
    """
    for version, kind in ((2, LeafV2), (1, LeafV1)):
        for place in memory_cgroups(version, mounts, own):
            if leaves := _usable(place, kind):
                return leaves
    return None


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
