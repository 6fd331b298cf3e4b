"""The process of one action, from its fork to the first line of its code."""

from __future__ import annotations

import os
import signal
import socket
from typing import NoReturn

from . import action, confine, wire
from .confine import Plan

_MOST_FDS = 4096


def run(line: socket.socket, plan: Plan) -> NoReturn:
    """In the child: prepare, wait for the action, confine it, run it."""
    reply: int | None = None
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _close_all_but(line.fileno(), plan.clean, plan.shared.fd if plan.shared is not None else -1)
        rules = confine.prepare(plan)
        request, fds = wire.receive(line)
        reply, code, out, err, *more = fds
        if request["entrance"]:
            os.write(more.pop(0), b"0")  # enter the cgroup that the host created for this action
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for fd, standard in ((null, 0), (out, 1), (err, 2)):
            os.dup2(fd, standard)
        confine.confine(plan, rules, more[0] if more else -1, request)
        text, notes = action.read(code)
        listener = confine.seal(plan, confine.bounds(plan, request))
        confine.close_off(line, listener)
        os.write(reply, b'{"begun": true}')  # without this message the host can retry the action
        line.detach()
        os.closerange(3, _MOST_FDS)
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the zygote has ended, or the host gave up
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (reported to the host as ours, not the action's)
        if reply is not None:
            wire.tell(
                socket.socket(fileno=reply),
                {"failed": getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"},
            )
        else:
            wire.tell(line, {"failed": getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"})
        os._exit(1)
    action.run(text, notes, request["seed"], request["environment"], chmod=plan.level == "full")


def _close_all_but(*kept: int) -> None:
    """Close inherited descriptors. An open reply socket would hide the zygote's death from the host."""
    first = 3
    for fd in sorted(fd for fd in kept if fd >= first):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, _MOST_FDS)
