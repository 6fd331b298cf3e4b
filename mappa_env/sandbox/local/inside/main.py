"""Started by the host: namespaces around everything that follows, and nobody left behind at the end.

``run("launch", fd, level)`` makes the namespaces and starts a second interpreter inside them, which calls
``run("template", fd, level)``: its memory then belongs to the new namespace of users, so that it may later
measure that of its actions.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from typing import Literal, NoReturn

from . import kernel, pages, preload, wire

Level = Literal["full", "landlock"]
_NAMESPACES = (
    kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP | kernel.CLONE_NEWPID
)  # fmt: skip


def run(stage: str, fd: str, level: Level) -> NoReturn:
    if stage == "template":
        _serve(socket.socket(fileno=int(fd)), level)
    _launch(int(fd), level)


def _serve(control: socket.socket, level: Level) -> NoReturn:
    try:
        config, _ = wire.receive(control)
        skipped = preload.load(config["preload"])
        gc.collect()
        pages.fill_holes()
        from .template import Template  # now, so that all that an action runs through lies together

        template = Template(control, level, config)
        wire.send(control, {"ready": True, "skipped": skipped, "user": template.user})
        template.serve()
    except EOFError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (told to the host, which reports it or takes the next rung)
        wire.send(control, {"failed": getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"})
        os._exit(1)


def _launch(fd: int, level: Level) -> NoReturn:
    try:
        if level == "full":
            _unshare()
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        child = _start(fd, level)
    except OSError as error:
        control = socket.socket(fileno=fd)
        wire.receive(control)  # unread, the host's first message would cut off our answer
        wire.send(control, {"failed": error.strerror or str(error)})
        os._exit(1)
    os.close(fd)
    os.waitpid(child, 0)
    while True:  # at landlock: whatever the template could not end has come to us
        try:
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
            os.wait()
        except ChildProcessError:
            os._exit(0)


def _start(fd: int, level: Level) -> int:
    """Fork, and start the template in place of the fork. It dies with us."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if level != "full" and os.getppid() != parent:
        os._exit(1)
    os.set_inheritable(fd, True)
    flags = [*sys.orig_argv[1 : sys.orig_argv.index("-c")]]
    flags.remove("-S")
    code = sys.orig_argv[sys.orig_argv.index("-c") + 1]
    os.execv(sys.executable, [sys.executable, *flags, "-c", code, sys.argv[1], "template", str(fd), level])


def _unshare() -> None:
    """As root without a namespace of users, else with one in which we are root."""
    if os.geteuid() == 0:
        try:
            kernel.unshare(_NAMESPACES)
            socket.sethostname("sandbox")
            return
        except PermissionError:  # root in name only, as in a container
            pass
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(_NAMESPACES | kernel.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    socket.sethostname("sandbox")


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
