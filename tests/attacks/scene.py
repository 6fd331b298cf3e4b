"""Targets that the host provides for attacks: a secret, a world-writable folder, a process, open ports."""

from __future__ import annotations

import functools
import os
import secrets
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from attacks.numbers import NUMBERS

PUBLIC = [Path("/", *parts.split("/")) for parts in ("tmp", "var/tmp", "dev/shm", "run", "home", "", "mnt")]
HOST_KEY = secrets.token_hex(12)
os.environ["SERVICE_API_KEY"] = HOST_KEY  # set before any sandbox starts, so it could be inherited


def open_to_all() -> str:
    """A temporary folder that every user can reach."""
    candidates = (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")
    for folder in map(Path, candidates):
        if all(each.stat().st_mode & 0o1 for each in (folder, *folder.parents)) and os.access(
            folder, os.W_OK
        ):
            return str(folder)
    raise OSError(f"none of {candidates} is open to all users")


class Scene:
    """The targets of one attack. ``actor``: the user that confined code runs as.

    File modes allow the actor everything here, so only the sandbox can stop an attack.
    """

    def __init__(self, actor: int) -> None:
        self.actor = actor
        self.token = f"7q{secrets.token_hex(12)}"  # random, so that only a successful attack can print it
        self.root = Path(tempfile.mkdtemp(prefix="scene-", dir=open_to_all()))
        self.secret = self.root / "secret.txt"
        self.secret.write_text(f"{self.token}\n" + "x" * secrets.randbelow(9000))
        self.link = self.root / "link"
        self.link.symlink_to(f"/nowhere/{self.token}")
        self.drop = self.root / "drop"
        self.empty = self.drop / "empty"
        self.empty.mkdir(parents=True)
        self.victim = self.drop / "victim.txt"
        self.victim.write_text("intact")
        for path, mode in (
            (self.root, 0o755),
            (self.secret, 0o644),
            (self.drop, 0o777),
            (self.victim, 0o666),
        ):
            path.chmod(mode)
        if os.getuid() == 0:
            for path in (self.drop, self.victim, self.empty):
                os.chown(path, actor, actor)
        self._before = self.state()

    def state(self) -> list[tuple[object, ...]]:
        """Everything in the folder that an attack could change, except access times."""
        found: list[tuple[object, ...]] = []
        for path in sorted(self.root.rglob("*")):
            info = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found.append((path, info.st_mode, info.st_uid, info.st_mtime_ns, info.st_nlink, content))
            found += [(path, name) for name in os.listxattr(path, follow_symlinks=False)]
        return found

    @property
    def touched(self) -> bool:
        return self.state() != self._before

    def left_behind(self) -> bool:
        """Remove files with this scene's name from public folders; returns whether there were any."""
        found = [path for folder in PUBLIC for path in folder.glob(f"{self.names()['unique']}*")]
        for path in found:
            path.unlink()
        return bool(found)

    @functools.cached_property
    def decoy(self) -> subprocess.Popen[bytes]:
        """A process of the actor's user, with the token in its memory and environment."""
        user = self.actor if os.getuid() == 0 else None
        return subprocess.Popen(
            ["sleep", "600"],
            env={"TOKEN": self.token},
            user=user,
            group=user,
            cwd="/",
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @functools.cached_property
    def door(self) -> Door:
        made = Door(self.root / "socket")
        self._before = self.state()
        return made

    def close(self) -> None:
        if "decoy" in vars(self):
            with self.decoy as decoy:
                decoy.kill()
        if "door" in vars(self):
            self.door.close()
        shutil.rmtree(self.root)

    def names(self) -> Mapping[str, object]:
        return _Names(self)


class _Names(Mapping[str, object]):
    """Values for ``$name`` in the source of attacks; creates processes and ports on first use."""

    def __init__(self, scene: Scene) -> None:
        door = "tcp", "tcp6", "udp", "abstract", "path"
        self._values = {
            "actor": lambda: scene.actor,
            "secret": lambda: scene.secret,
            "folder": lambda: scene.root,
            "size": lambda: scene.secret.stat().st_size,
            "drop": lambda: scene.drop,
            "link": lambda: scene.link,
            "victim": lambda: scene.victim,
            "empty": lambda: scene.empty,
            "token": lambda: scene.token,
            "exit": lambda: 60 if NUMBERS["ptrace"] == 101 else 93,
            "host": lambda: os.uname().nodename,
            "decoy": lambda: scene.decoy.pid,
            "unique": lambda: f"attack-{scene.token[:8]}",
            **{name: functools.partial(lambda name: getattr(scene.door, name), name) for name in door},
            **{f"nr_{name}": functools.partial(int, number) for name, number in NUMBERS.items()},
        }

    def __getitem__(self, name: str) -> object:
        return self._values[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Door:
    """Listeners of every kind; ``knocked`` names those that received a connection or data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.abstract = f"door-{secrets.token_hex(6)}"
        self._sockets: dict[str, socket.socket] = {}
        self.tcp = self._open("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.udp = self._open("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.tcp6 = self._open("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
        self._open("path", socket.AF_UNIX, socket.SOCK_STREAM, str(path))
        self._open("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.abstract)
        self._open("post", socket.AF_UNIX, socket.SOCK_DGRAM, f"{path}.post")
        path.chmod(0o777)
        Path(f"{path}.post").chmod(0o777)

    def _open(self, name: str, family: int, kind: int, address: object) -> int:
        """The port; 0 if there is none."""
        try:
            listener = socket.socket(family, kind)
            listener.bind(address)
        except OSError:  # no IPv6 on this machine
            return 0
        if kind == socket.SOCK_STREAM:
            listener.listen()
        self._sockets[name] = listener
        return listener.getsockname()[1] if family in (socket.AF_INET, socket.AF_INET6) else 0

    @property
    def knocked(self) -> list[str]:
        readable = select.select([*self._sockets.values()], [], [], 0)[0]
        return [name for name, listener in self._sockets.items() if listener in readable]

    def close(self) -> None:
        for listener in self._sockets.values():
            listener.close()
