"""One action's confinement: what can be done before the action is known, and the rest of it."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import Any, Literal

from . import kernel, landlock, seccomp
from .root import SCRATCH, WORK, graft, hidden
from .runtime import DEVICES, ETC, SYSTEM

_SPARE = 64 * 2**20
"""Memory that stays in hand for reporting that the memory is used up."""
_OF_ITSELF = ("maps", "stat", "status", "statm", "limits", "comm", "cmdline")
"""What a process may read of itself where the host's ``/proc`` is the only one: libraries look for each other
in ``maps``. Not the folder: it holds the host's network and mounts as well."""
_OTHERS = 1024
"""Processes that other work of the same user may start meanwhile, where users are counted as a whole."""
Level = Literal["full", "landlock"]
INSIDE = 61000
"""Who an action is in its own namespace of users."""
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV


@dataclass(frozen=True)
class Plan:
    """What does not change from action to action. ``user``: whom to become (None: stay who we are)."""

    level: Level
    folders: list[str]
    user: int | None
    clean: int
    program: bytes
    address_space: int
    """Bytes of address space that a zygote has before any action."""


def prepare(plan: Plan) -> landlock.Ruleset:
    """Namespaces, private folders and the rules of the runtime: before it is known what will run."""
    if plan.level == "full":
        kernel.setns(plan.clean, kernel.CLONE_NEWNS)
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        kernel.mount("proc", "/proc", "proc", _QUIET | kernel.MS_NOEXEC, "subset=pid")
        covered = [(path, kernel.clone_tree(path, recursive=True)) for path in hidden(plan.folders)]
        for path, size, inodes, flags in SCRATCH:
            kernel.mount("tmpfs", path, "tmpfs", _QUIET | flags, f"size={size}m,nr_inodes={inodes},mode=1777")
        for path, tree in covered:
            graft(tree, path)
    else:
        os.setsid()
    _write("/proc/self/oom_score_adj", "1000")
    rules = landlock.Ruleset()
    if plan.level == "full":
        rules.allow("/", landlock.READ)  # nothing is there but the runtime
    else:
        for path in (*SYSTEM, *ETC, *plan.folders):
            rules.allow(path, landlock.READ, folder=os.path.isdir(path))
        for name in _OF_ITSELF:
            rules.allow(f"/proc/{os.getpid()}/{name}", landlock.READ_FILE, folder=False)
    for name in DEVICES:
        rules.allow(f"/dev/{name}", landlock.FILE, folder=False)
    return rules


def confine(plan: Plan, rules: landlock.Ruleset, tree: int, request: dict[str, Any]) -> None:
    """The rest, once the workspace (``tree``, or a path) and the limits are known. Raises OSError.

    The order matters: mounts, user, namespace of users, limits, Landlock, capabilities, seccomp.
    """
    alone = plan.level == "full"
    places = [WORK, *(path for path, *_ in SCRATCH)]
    if plan.level == "full":
        kernel.attach_tree(tree, WORK)
        os.close(tree)
        if plan.user is not None:
            _become(plan.user, plan.user)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else the maps of the new namespace cannot be written
        outside = os.getuid(), os.getgid()
        kernel.unshare(kernel.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{INSIDE} {outside[0]} 1")
        _write("/proc/self/gid_map", f"{INSIDE} {outside[1]} 1")
    else:
        places = [request["folder"], request["scratch"]]
        if os.geteuid() == 0:
            _become(INSIDE + 1 + int.from_bytes(os.urandom(2), "big"), plan.user or 0)
            alone = True
    os.chdir(places[0])
    _limit(plan, request["limits"], alone=alone)
    for path in places:
        rules.allow(path, landlock.WRITE)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    rules.restrict()
    kernel.drop_capabilities(bounding=plan.level == "full")
    if plan.level == "full":  # at landlock the zygote could not measure its memory any more
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def seal(plan: Plan) -> None:
    """The very last step: from here on only the allowed system calls."""
    seccomp.install(plan.program)


def _become(real: int, effective: int) -> None:
    """Files are opened as ``effective``; processes are counted as those of ``real``."""
    os.setgroups([])
    os.setresgid(effective, effective, effective)
    os.setresuid(real, effective, effective)


def _limit(plan: Plan, limits: dict[str, int], *, alone: bool) -> None:
    """``alone``: nobody else's processes are counted together with those of this action."""
    space = plan.address_space + limits["memory"]
    processes = limits["processes"]
    if not alone:
        processes += limits["running"] + _OTHERS
    for kind, soft, hard in (
        (resource.RLIMIT_AS, space, space + _SPARE),
        (resource.RLIMIT_CPU, limits["cpu"], limits["cpu"] + 1),
        (resource.RLIMIT_FSIZE, limits["disk"], limits["disk"]),
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_NOFILE, 256, 256),
        (resource.RLIMIT_MEMLOCK, 65536, 65536),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        most = resource.getrlimit(kind)[1]
        top = hard if most == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(kind, (min(soft, top), top))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
