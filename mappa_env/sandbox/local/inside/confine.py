"""Confines one action in two steps: ``prepare`` before the action is known, ``confine`` once it is."""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import dataclass
from typing import Any, Literal

from . import kernel, landlock, seccomp, wire
from .root import SCRATCH, WORK, graft, hidden
from .runtime import DEVICES
from .supervisor import Bounds

_SPARE = 64 * 2**20
"""Bytes kept in reserve to report that the memory is used up."""
_OF_ITSELF = ("maps", "stat", "status", "statm", "limits", "comm", "cmdline")
"""Files of its ``/proc/PID`` that a process may read at landlock: libraries find each other in ``maps``. The
folder itself is closed, because it also shows the host's network and mounts."""
_FILES = 256
"""Descriptors that a process of an action may have open."""
_OTHERS = 1024
"""Processes that the same user may start elsewhere, if the kernel counts all processes of a user together."""
Level = Literal["full", "landlock"]
INSIDE = 61000
"""The user id of an action in its own user namespace."""
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV


@dataclass(frozen=True)
class Plan:
    """Settings that all actions share. ``user``: the user id to change to (None: keep our own)."""

    level: Level
    folders: list[str]
    readable: list[tuple[str, bool]]
    """Without mounts: what may be read, and whether with all below it; otherwise only its names."""
    shared: landlock.Ruleset | None
    """Without mounts: a first layer of rules that closes what is hidden. It is the same for all actions,
    because its many rules take longer to write than to apply."""
    user: int | None
    clean: int
    program: bytes
    address_space: int
    """Bytes of address space that a zygote uses before any action."""


def prepare(plan: Plan) -> landlock.Ruleset:
    """Set up namespaces, private folders and the rules for the runtime, before the action is known."""
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
        rules.allow("/", landlock.READ)  # holds only the runtime
    else:
        allow_reading(rules, plan.readable)
        for name in _OF_ITSELF:
            rules.allow(f"/proc/{os.getpid()}/{name}", landlock.READ_FILE, folder=False)
    for name in DEVICES:
        rules.allow(f"/dev/{name}", landlock.FILE, folder=False)
    return rules


def allow_reading(rules: landlock.Ruleset, readable: list[tuple[str, bool]]) -> None:
    """``readable``: as in ``Plan``."""
    for path, whole in readable:
        rules.allow(path, landlock.READ if whole else landlock.READ_DIR, folder=os.path.isdir(path))


def confine(plan: Plan, rules: landlock.Ruleset, tree: int, request: dict[str, Any]) -> None:
    """Confine the action to its workspace (``tree``, or a path) and its limits. Raises OSError.

    The order matters: mounts, user, user namespace, limits, Landlock, capabilities, seccomp.
    """
    alone = plan.level == "full"
    places = [WORK, *(path for path, *_ in SCRATCH)]
    if plan.level == "full":
        kernel.attach_tree(tree, WORK)
        os.close(tree)
        if plan.user is not None:
            _become(plan.user, plan.user)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise the new namespace's maps are not writable
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
    if plan.shared is not None:
        plan.shared.restrict()
    rules.restrict()
    kernel.drop_capabilities(bounding=plan.level == "full")
    if plan.level == "full":  # at landlock the zygote could no longer measure the action's memory
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def bounds(plan: Plan, request: dict[str, Any]) -> Bounds:
    """What the zygote has to know of an action to answer its system calls."""
    memory = request["limits"]["memory"]
    folders: tuple[str, ...] | None = None
    if plan.level != "full":
        folders = os.path.realpath(request["folder"]), os.path.realpath(request["scratch"])
    return Bounds(plan.address_space + memory, memory // 2, folders)


def seal(plan: Plan, bounds: Bounds) -> int:
    """Install the system call filter, the last step; returns its listener."""
    return seccomp.install(seccomp.asking_from(plan.program, bounds.asked_from), listener=True)


def _become(real: int, effective: int) -> None:
    """Change user: the kernel checks file access for ``effective`` and counts processes for ``real``."""
    os.setgroups([])
    os.setresgid(effective, effective, effective)
    os.setresuid(real, effective, effective)


def _limit(plan: Plan, limits: dict[str, int], *, alone: bool) -> None:
    """``alone``: the kernel counts the processes of this action separately."""
    space = plan.address_space + limits["memory"]
    processes = limits["processes"]
    if not alone:
        processes += limits["running"] + _OTHERS
    for kind, soft, hard in (
        (resource.RLIMIT_AS, space, space + _SPARE),
        (resource.RLIMIT_CPU, limits["cpu"], limits["cpu"]),  # SIGKILL at once: code could catch SIGXCPU
        (resource.RLIMIT_FSIZE, limits["disk"], limits["disk"]),
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_MEMLOCK, 65536, 65536),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _lower(kind, soft, hard)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # until close_off


def close_off(line: socket.socket, listener: int) -> None:
    """Hand the filter's ``listener`` to the zygote, and limit the descriptors.

    In this order: what a user's processes have sent and nobody has received counts against the sender's
    limit, and with that of actions, a neighbour's descriptors on their way would leave the listener no room.
    """
    wire.send(line, {}, [listener])
    _lower(resource.RLIMIT_NOFILE, _FILES, _FILES)


def _lower(kind: int, soft: int, hard: int) -> None:
    most = resource.getrlimit(kind)[1]
    top = hard if most == resource.RLIM_INFINITY else min(hard, most)
    resource.setrlimit(kind, (min(soft, top), top))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
