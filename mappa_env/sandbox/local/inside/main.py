"""The entry point that the host starts: creates the namespaces, and kills what is left at the end.

``run(folder, "launch", fd, level)`` creates the namespaces and starts a second interpreter inside them, which
calls ``run(folder, "template", fd, level)``. The memory of this interpreter belongs to the new user
namespace, so it may measure the memory of its actions.
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
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
    | kernel.CLONE_NEWPID
)


def run(folder: str, stage: str, fd: str, level: Level) -> NoReturn:
    """Run one stage, ``launch`` or ``template``. ``fd``: the socket to the host; ``folder``: the descriptor
    through which this code is imported."""
    if stage == "template":
        _serve(int(folder), socket.socket(fileno=int(fd)), level)
    _launch(int(folder), int(fd), level)


def _serve(folder: int, control: socket.socket, level: Level) -> NoReturn:
    try:
        config, _ = wire.receive(control)
        skipped = preload.load(config["preload"], config.pop("cache"))
        gc.collect()
        pages.fill_holes()
        from .template import Template  # after fill_holes: keeps the memory that actions touch together

        os.close(folder)
        template = Template(control, level, config)
        found = {"skipped": skipped, "user": template.user, "unnamed": template.unnamed}
        wire.send(control, {"ready": True, **found})
        template.serve()
    except EOFError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (the host reports it, or tries the next level)
        wire.send(control, {"failed": getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"})
        os._exit(1)


def _launch(folder: int, fd: int, level: Level) -> NoReturn:
    try:
        if level == "full":
            _unshare()
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        child = _start(folder, fd, level)
    except OSError as error:
        control = socket.socket(fileno=fd)
        wire.receive(control)  # closing with this message unread would discard our answer
        wire.send(control, {"failed": error.strerror or str(error)})
        os._exit(1)
    os.close(fd)
    os.waitpid(child, 0)
    while True:  # at landlock, processes that outlive the template become our children
        try:
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
            os.wait()
        except ChildProcessError:
            os._exit(0)


def _start(folder: int, fd: int, level: Level) -> int:
    """Start the template as a child that dies with this process."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if level != "full" and os.getppid() != parent:
        os._exit(1)
    flags = [*sys.orig_argv[1 : sys.orig_argv.index("-c")]]
    flags.remove("-S")
    code = sys.orig_argv[sys.orig_argv.index("-c") + 1]
    arguments = [str(folder), "template", str(fd), level]
    os.execv(sys.executable, [sys.executable, *flags, "-c", code, *arguments])


def _unshare() -> None:
    """Create the namespaces; unless we are root, with a user namespace in which we are."""
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
