"""The file system that actions see. The template builds it once, in its own mount namespace.

It consists of two namespaces. The *clean* one holds only the read-only runtime; every action gets a copy of
it. The *store*, where template and zygotes live, also holds the workspaces. So an action's namespace never
contains another workspace, not even for a moment.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import stat

from . import installation, kernel
from .runtime import DEVICES, ETC, SYSTEM

WORK, STORE, HOST = "/w", "/store", "/host"
_READ_ONLY = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV
SCRATCH = (("/tmp", 64, 2048, 0), ("/dev/shm", 64, 256, kernel.MS_NOEXEC))
"""Private folders of every action: path, MiB, inodes, flags."""


def visible(folders: list[str]) -> list[str]:
    """What of the host actions may read, ``folders`` of the interpreter among it; no links of the system."""
    return [path for path in (*SYSTEM, *ETC, *folders) if _is_real(path)]


def build(folders: list[str], unseen: list[str], host: str, user: int) -> tuple[int, bool]:
    """Make the store the current namespace; returns a descriptor of the clean one, and whether it lacks even
    the names of this project's files.

    ``folders``: the interpreter's folders; ``unseen``: what actions must not see of the runtime; ``host``:
    the parent folder of plain workspaces; ``user``: the user id in the password database.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    clean = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    trees = {path: _read_only(path) for path in visible(folders)}
    links = {path: os.readlink(path) for path in SYSTEM if os.path.islink(path)}
    devices = {f"/dev/{name}": _device(f"/dev/{name}") for name in DEVICES}
    plain = kernel.clone_tree(host, recursive=True)
    kernel.mount("tmpfs", "/mnt", "tmpfs", _QUIET, "size=4m,mode=755")
    os.chdir("/mnt")
    for path in (WORK, STORE, HOST, "/proc", "/dev/shm", "/tmp", "/etc"):
        os.makedirs(f".{path}", mode=0o755)
    for path, link in links.items():
        os.symlink(link, f".{path}")
    _write("./etc/passwd", f"agent:x:{user}:{user}:agent:{WORK}:/bin/sh\n")
    _write("./etc/group", f"agent:x:{user}:\n")
    _write("./etc/hosts", "127.0.0.1 localhost\n")
    for path, tree in (*trees.items(), *devices.items()):
        graft(tree, path, ".")
    project, others = installation.split(unseen)
    unnamed = True
    for folder, names in project.items():
        if not _leave_out(f".{folder}", names):
            others += [f"{folder}/{name}" for name in names]
            unnamed = False
    for path in others:
        _cover(f".{path}")
    # In a user namespace, the kernel allows a proc mount only if another one is visible: this one.
    kernel.mount("proc", "./proc", "proc", _QUIET | kernel.MS_NOEXEC, "subset=pid")
    kernel.pivot_root(".", ".")
    kernel.unmount(".")
    kernel.mount("none", "/", flags=kernel.MS_REMOUNT | kernel.MS_RDONLY | _QUIET, data="size=4m,mode=755")
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("tmpfs", STORE, "tmpfs", _QUIET, "size=1m,mode=700")
    kernel.attach_tree(plain, HOST)
    os.close(plain)
    return clean, unnamed


def hidden(folders: list[str]) -> list[str]:
    """The folders that the private scratch mounts would hide."""
    return [path for path in folders if any(path.startswith(f"{scratch}/") for scratch, *_ in SCRATCH)]


def graft(tree: int, path: str, below: str = "") -> None:
    """Attach a detached tree at ``path``; creates the mount point, a folder or a file as the tree is."""
    point = below + path
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(point, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(point), exist_ok=True)
        os.close(os.open(point, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.attach_tree(tree, point)
    os.close(tree)


def _read_only(path: str) -> int:
    tree = kernel.clone_tree(os.path.realpath(path), recursive=True)
    kernel.set_mount_attributes(tree, _READ_ONLY)
    return tree


def _leave_out(folder: str, names: list[str]) -> bool:
    """Show ``folder`` without ``names``, by a layer over it that deletes them. False: there is no overlayfs
    here, or not over this file system, or another mount lies below the folder, which a layer would hide."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        inner = f"{os.path.realpath(folder)}/"
        if any(line.split()[4].startswith(inner) for line in mounts):
            return False
    layer = "./layer"
    os.mkdir(layer)
    kernel.mount("tmpfs", layer, "tmpfs", _QUIET, "size=1m,mode=755")
    try:
        for name in names:
            for place in reversed(pathlib.PurePath(name).parents):
                os.makedirs(f"{layer}/{place}", exist_ok=True)
                shutil.copymode(f"{folder}/{place}", f"{layer}/{place}")
            os.mknod(f"{layer}/{name}", stat.S_IFCHR, os.makedev(0, 0))
        kernel.mount("overlay", folder, "overlay", _QUIET | kernel.MS_RDONLY, _layers(layer, folder))
    except OSError:
        return False
    finally:
        kernel.unmount(layer)
        os.rmdir(layer)
    return True


def _layers(*folders: str) -> str:
    return "lowerdir=" + ":".join(re.sub(r"([\\:,])", r"\\\1", folder) for folder in folders)


def _cover(path: str) -> None:
    """Mount an empty folder over a folder; over a file, a device that cannot be opened there."""
    if os.path.isdir(path):
        kernel.mount("tmpfs", path, "tmpfs", _QUIET | kernel.MS_RDONLY, "size=4k,nr_inodes=1,mode=755")
        return
    tree = _read_only("/dev/null")
    kernel.attach_tree(tree, path)
    os.close(tree)


def _device(path: str) -> int:
    """Clone a device's mount, read-only: writes to the device still work, but its times and mode are safe."""
    tree = kernel.clone_tree(path)
    kernel.set_mount_attributes(tree, kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID)
    return tree


def _is_real(path: str) -> bool:
    return os.path.exists(path) and not (path in SYSTEM and os.path.islink(path))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
