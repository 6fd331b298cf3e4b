"""The command line of bubblewrap: how to find it, what it mounts, and remedies when it fails."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mappa_env.errors import SandboxError
from mappa_env.sandbox.launch import RUNNER
from mappa_env.sandbox.local.inside.hiding import hidden
from mappa_env.sandbox.local.inside.root import visible
from mappa_env.sandbox.local.inside.runtime import DEVICES, ETC, SYSTEM, folders
from mappa_env.sandbox.local.isolation_levels import remedy as remedy_for_namespaces
from mappa_env.sandbox.local.own import own_paths

USER = 61000
"""The user id of actions when the host is root; no system assigns this number."""
WORK, SCRATCH = "/w", "/tmp"
INIT = "/run/mappa/bwrap_init.py"
RUNNER_INSIDE = "/run/mappa/runner.py"
FILES = {
    "/etc/passwd": f"agent:x:{USER}:{USER}:agent:{WORK}:/bin/sh\n",
    "/etc/group": f"agent:x:{USER}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
}
"""Files that exist only for the action, by path; bubblewrap gets them as descriptors."""
_SANDBOX = Path(__file__).parents[1]
_SCRATCH_BYTES = 64 * 2**20
_OLDEST = (0, 7)
"""Older versions have no ``--size``, so private folders would have no limit."""
_RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_APPARMOR = (
    "AppArmor keeps bwrap from creating a user namespace (Ubuntu 23.10 and later). A profile allows it: "
    r"printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap /usr/bin/bwrap flags=(unconfined) "
    r"{\n  userns,\n}\n' | sudo tee /etc/apparmor.d/bwrap && sudo systemctl reload apparmor"
)
_ASK = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from inside.runtime import folders; "
    "print(json.dumps([folders(), [path for path in sys.path if path.endswith('-packages')]]))"
)


class Runtime(NamedTuple):
    """An interpreter: its path, the files and folders that it needs, those of its libraries, and what of
    them actions must not see."""

    python: str
    folders: tuple[str, ...]
    libraries: tuple[str, ...]
    unseen: tuple[str, ...]


def user_of_actions() -> int | None:
    """``USER`` if this process is root and that user is mapped; None: actions run as our own user."""
    if os.geteuid() != 0:
        return None
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    ranges = [list(map(int, line.split())) for line in lines]
    return USER if any(first <= USER < first + count for first, _, count in ranges) else None


@functools.cache
def find_bwrap(path: str) -> str:
    """Find bubblewrap on the search path ``path``. Raises SandboxError if it is missing or too old."""
    found = shutil.which("bwrap", path=path)
    if found is None:
        raise SandboxError("sandbox='bwrap' needs bubblewrap: apt install bubblewrap (or dnf, pacman).")
    said = subprocess.run(
        [found, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    version = re.search(r"(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        raise SandboxError(
            f"{found} reports {said.strip()!r}; limits on private folders need bubblewrap 0.7 or newer."
        )
    return found


@functools.cache
def runtime(python: str) -> Runtime:
    """Find what ``python`` needs, once per interpreter. Raises SandboxError if it does not run."""
    if python == sys.executable:
        return _runtime(python, folders(), [p for p in sys.path if p.endswith("-packages")])
    found = shutil.which(python) or python
    try:
        command = [found, "-s", "-c", _ASK, str(_SANDBOX / "local")]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        needed, libraries = json.loads(said)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxError(f"python={python!r} does not run as a Python interpreter: {error}") from None
    return _runtime(os.path.abspath(found), needed, libraries)


def _runtime(python: str, needed: list[str], libraries: list[str]) -> Runtime:
    unseen = hidden(visible(needed), own_paths())
    return Runtime(python, tuple(needed), tuple(libraries), tuple(unseen))


def arguments(user: int | None, needed: Runtime, files: Mapping[str, int], folder: str) -> list[str]:
    """Options that describe everything the action gets. ``user``: see ``user_of_actions``.

    For root, bubblewrap creates no user namespace: the interpreter may lie in a folder that only root can
    enter. ``init`` keeps two capabilities to change its user, and loses them with it. For other users the
    container has no capabilities from the start.
    """
    who = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    if user is None:
        who = ["--unshare-user", "--uid", str(USER), "--gid", str(USER)]
    return [
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup",
        "--hostname",
        "sandbox",
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        "--cap-drop",
        "ALL",
        *who,
        *_system(),
        "--proc",
        "/proc",
        *_devices(),
        *_private(SCRATCH),
        *_private("/dev/shm"),
        "--remount-ro",
        "/dev",
        *_parents([*needed.folders, *files, *ETC, INIT]),
        *(word for path in needed.folders for word in ("--ro-bind", path, path)),
        *(word for path in ETC for word in ("--ro-bind-try", path, path)),
        *_covers(needed.unseen),
        *_made_up(files),
        "--ro-bind",
        str(RUNNER),
        RUNNER_INSIDE,
        "--ro-bind",
        str(_SANDBOX / "bwrap" / "init.py"),
        INIT,
        "--ro-bind",
        str(_SANDBOX / "local" / "inside"),
        os.path.join(os.path.dirname(INIT), "inside"),
        "--bind",
        folder,
        WORK,
        "--chdir",
        WORK,
        "--remount-ro",
        "/",
    ]


def remedy(reason: str) -> str:
    """A remedy for ``reason``, bubblewrap's error message; empty if none is known."""
    if not re.search("namespace|[Pp]ermi|uid map|unshare", reason):
        return ""
    try:
        restricted = Path(_RESTRICTED).read_text() == "1\n"
    except OSError:
        restricted = False
    return _APPARMOR if restricted else remedy_for_namespaces()


def _system() -> list[str]:
    words: list[str] = []
    for path in SYSTEM:
        if os.path.islink(path):
            words += ("--symlink", os.readlink(path), path)
        elif os.path.exists(path):
            words += ("--ro-bind", path, path)
    return words


def _parents(paths: Iterable[str]) -> list[str]:
    """Options that create the parents of mount points; bubblewrap's own would be closed to other users."""
    above = {str(folder) for path in paths for folder in Path(path).parents}
    return [word for path in sorted(above - {"/"}) for word in ("--perms", "0755", "--dir", path)]


def _made_up(files: Mapping[str, int]) -> list[str]:
    made = (("--perms", "0644", "--ro-bind-data", str(fd), path) for path, fd in files.items())
    return [word for words in made for word in words]


def _covers(paths: Iterable[str]) -> list[str]:
    words: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            words += ("--size", "4096", "--tmpfs", path, "--remount-ro", path)
        else:
            words += ("--ro-bind", "/dev/null", path)
    return words


def _devices() -> list[str]:
    """Mount only stateless devices; bubblewrap's own ``--dev`` has terminals too."""
    words = ["--size", str(2**20), "--tmpfs", "/dev"]
    for name in DEVICES:
        words += ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for link, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        words += ("--symlink", f"/proc/self/fd{target}", f"/dev/{link}")
    return words


def _private(path: str) -> tuple[str, ...]:
    return ("--perms", "1777", "--size", str(_SCRATCH_BYTES), "--tmpfs", path)
