"""Runs one action with limits on a SandboxFusion server, as the ``code`` of a request, and reports.

Imports only the standard library and the modules of ``mappa_env`` with which the ``process`` backend starts
and watches its children, so statuses mean the same here. The request's ``files`` put these modules next to
this one, with ``main.py`` (the agent's code) and ``in.tar`` (the workspace). The job comes on standard input.
The host fetches an archive (the changed files) and a report (everything else). The server truncates stdout
silently, so the report carries the agent's output, bounded and counted.

The job holds a nonce that the agent's code never sees: a report without it is forged. It is also the name of
both files, so the code cannot put traps for the server in their place.
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Iterator, Mapping
from io import BufferedRandom
from typing import Any

from mappa_env.sandbox.action_file import ActionFile
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.fusion.carry import carry
from mappa_env.sandbox.fusion.guard import (
    KillTimer,
    abandoned,
    adopt_orphans,
    die_with_parent,
    end_descendants,
    end_when_abandoned,
    hide,
)
from mappa_env.sandbox.launch import RUNNER, command, environment, exit_code, exit_status
from mappa_env.sandbox.watch import Watch
from mappa_env.workspace.nofollow import ensure_folder, remove_tree
from mappa_env.workspace.scanning import scan

STARTED = "mappa: the action starts"
"""Printed before the agent's code can run: a failure without this line is the server's fault."""
CRASHED = 76
"""Exit code of a wrapper that failed after the start, whatever became of that line."""
LATE_S = 10.0
"""Seconds past the wall limit after which the kernel ends a wrapper that is still watching."""
_HERE = os.path.dirname(os.path.abspath(__file__))
_WORK, _SCRATCH = os.path.join(_HERE, "ws"), os.path.join(_HERE, "tmp")


def main() -> None:
    """Unpack the workspace, run the action and write the report."""
    job = json.load(sys.stdin)
    limits = Limits(**job["limits"])
    hide()
    adopt_orphans()
    os.mkdir(_WORK)
    os.mkdir(_SCRATCH)
    with tarfile.open(os.path.join(_HERE, "in.tar"), encoding="utf-8") as archive:
        archive.extraction_filter = lambda member, _: member  # trusted: the host wrote this archive
        archive.extractall(_WORK)
    before = scan(_WORK)
    timer = KillTimer()
    print(STARTED, flush=True)
    try:
        timer.set(limits.wall_s + LATE_S)
        facts = act(limits, job["seed"])
        end_descendants()  # none may touch the report, or write during the scan
        timer.set(0)
        if "failed" not in facts:
            after = scan(_WORK, before)
            if facts["status"] in ("ok", "error") and after.over(job["room"]):
                facts["status"] = "disk_limit"
            with created(job["nonce"] + ".tar") as target:
                facts |= carry(_WORK, before, after, job["room"], target)
        report(job["nonce"], facts)
    except Exception:  # noqa: BLE001  (the server reports it, the host reads it)
        traceback.print_exc()
        sys.exit(CRASHED)
    finally:
        if abandoned():
            remove_tree(_HERE)


def act(limits: Limits, seed: int) -> dict[str, Any]:
    """Run the action to its end; return all facts except its files."""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        try:
            with open(os.path.join(_HERE, "main.py"), encoding="utf-8", newline="") as code:
                file = stack.enter_context(ActionFile(code.read()))
            process = start(file, limits, seed)
        except OSError as error:
            return {"failed": f"no process could be started: {error}"}
        end_when_abandoned(process)
        facts = watch(process, limits)
        return facts | {"wall_s": time.monotonic() - started, "opened": file.opened()}


def start(file: ActionFile, limits: Limits, seed: int) -> "subprocess.Popen[bytes]":
    """Start the action's interpreter. Raises OSError."""
    libraries = [path for path in sys.path if path.endswith("-packages")]
    return subprocess.Popen(
        command(sys.executable, str(RUNNER), file.fd, limits, seed, libraries),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=(file.fd,),
        cwd=_WORK,
        start_new_session=True,
        preexec_fn=die_with_parent,  # safe: this process still has one thread
        env=environment(_WORK, _SCRATCH),
    )


def watch(process: "subprocess.Popen[bytes]", limits: Limits) -> dict[str, Any]:
    """Wait for the action and end all its processes that can be found; return what is known of it."""
    watched = Watch(process, limits, _WORK)
    exceeded = watched.wait()
    cpu = watched.usage.ru_utime + watched.usage.ru_stime
    return {
        "status": exceeded or exit_status(process.returncode, cpu, limits),
        "exit_code": exit_code(process.returncode),
        "stdout": watched.out.text(),
        "stderr": watched.err.text(),
        "truncated": watched.out.dropped + watched.err.dropped,
        "cpu_s": cpu,
        "peak_rss": watched.usage.ru_maxrss * 1024,
    }


def report(nonce: str, facts: Mapping[str, Any]) -> None:
    """Write the report."""
    with created(nonce + ".json") as target:
        target.write(json.dumps({"nonce": nonce, **facts}).encode())


@contextlib.contextmanager
def created(name: str) -> Iterator[BufferedRandom]:
    """Create a file next to this one: whole under its name, or not at all."""
    ensure_folder(_HERE)
    path = os.path.join(_HERE, secrets.token_hex(16))
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), "w+b") as target:
        yield target
    os.rename(path, os.path.join(_HERE, name))


if __name__ == "__main__":
    main()
