"""The first process inside bubblewrap: starts the action, waits for it, reports how it ended, and exits.

Its exit ends all other processes of its pid namespace. Started as ``python -I -S bwrap_init.py JOB``, where
JOB is JSON: ``report`` (descriptor for the report), ``code`` (the one descriptor that the action inherits),
``user`` (the user to become if this process is root, else null), ``processes`` and ``command``. Imports only
the standard library and ``inside``, which is mounted next to this file.
"""

import ctypes  # noqa: F401  (needed by ``inside``: fails here, before anything has begun)
import json
import os
import resource
import signal
import sys
from typing import Any, NoReturn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from inside import kernel, seccomp

INSIDE = 61000
"""The user id that the action sees as its own."""


def main() -> None:
    """Start the action, reap every process until it ends, and report how it ended."""
    job = json.loads(sys.argv[1])
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # an action of the same user may not look in or trace
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # any other signal is ignored for a first process
    problem, problem_end = os.pipe()  # closed by the start of the program
    child = os.fork()
    if child == 0:
        start(job, problem_end)
    os.close(problem_end)
    os.close(job["code"])
    with open(problem, encoding="utf-8") as stream:
        failed = stream.read()
    tell(job["report"], {"failed": failed} if failed else {"started": True})
    while True:
        pid, status, usage = os.wait4(-1, 0)
        if pid == child:
            break
    if not failed:
        cpu = usage.ru_utime + usage.ru_stime
        tell(job["report"], {"status": status, "cpu_s": cpu, "peak_rss": usage.ru_maxrss * 1024})
    os._exit(0)


def start(job: dict[str, Any], problem: int) -> NoReturn:
    """In the child: give up all privilege, then become the action's interpreter."""
    try:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise it cannot read its own files in /proc
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd > 2 and fd != job["code"]:
                close_at_start(fd)
        os.setsid()
        if job["user"] is not None:
            become(job["user"])
        for kind, most in (
            (resource.RLIMIT_NPROC, job["processes"]),
            (resource.RLIMIT_MEMLOCK, 65536),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            most = min(most, *(each for each in resource.getrlimit(kind) if each >= 0), most)
            resource.setrlimit(kind, (most, most))
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        kernel.drop_capabilities(bounding=job["user"] is not None)
        seccomp.install(seccomp.build("full"))
        os.execv(job["command"][0], job["command"])
    except BaseException as error:  # noqa: BLE001  (reported to the host as ours, not the action's)
        os.write(problem, f"{type(error).__name__}: {error}".encode())
    os._exit(1)


def become(user: int) -> None:
    """Become ``user`` in a user namespace that maps only that user.

    The kernel then counts processes separately for each action, and no privilege of the new namespace
    extends to the mounts.
    """
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise the new namespace's maps are not writable
    kernel.unshare(kernel.CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{INSIDE} {user} 1"),
        ("gid_map", f"{INSIDE} {user} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def close_at_start(fd: int) -> None:
    """Mark ``fd`` close-on-exec."""
    try:
        os.set_inheritable(fd, False)
    except OSError:  # the descriptor of the listing itself, closed by now
        return


def tell(report: int, message: dict[str, Any]) -> None:
    """Write one line of the report, as JSON."""
    os.write(report, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
