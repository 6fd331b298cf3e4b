"""Runs on a SandboxFusion server, as the ``code`` of a request: one action with limits, and its report.

Standard library only. Beside it lie (sent in ``files``) the few modules of ``mappa_env`` with which the
``process`` backend starts and watches its children, so that every status means the same here, ``main.py``
(the agent's code) and ``in.tar`` (the workspace). The job comes on standard input. What is left behind is
``out.tar`` (the files that changed) and ``rc.json`` (everything else); only these two are fetched. The server
would cut its stdout without a word, so the agent's output travels in ``rc.json``, bounded and counted.

The job holds a nonce that the agent's code is not shown: a report without it was not written here.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  (the server's Python, not ours)
    sys.exit(f"the server's Python is {sys.version.split()[0]}; actions need 3.10 or newer")

import contextlib
import ctypes
import hashlib
import json
import os
import secrets
import subprocess
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedRandom
from typing import IO, Any

from mappa_env.errors import WorkspaceError
from mappa_env.folders import ensure_folder, open_file, remove_tree, walk
from mappa_env.names import shown
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.launch import RUNNER, command, environment, exit_code, exit_status
from mappa_env.sandbox.watch import Watch
from mappa_env.trail import MAX_ENTRIES, Snapshot, scan

STARTED = "mappa: the action starts"
"""Printed before the agent's code can run: whatever goes wrong without it is the server's fault."""
_HERE = os.path.dirname(os.path.abspath(__file__))
_WORK, _SCRATCH = os.path.join(_HERE, "ws"), os.path.join(_HERE, "tmp")
_PR_SET_DUMPABLE = 4
_MIB = 2**20


def main() -> None:
    job = json.load(sys.stdin)
    limits = Limits(**job["limits"])
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # the agent's code may not look into this process
    os.mkdir(_WORK)
    os.mkdir(_SCRATCH)
    with tarfile.open(os.path.join(_HERE, "in.tar"), encoding="utf-8") as archive:
        archive.extraction_filter = lambda member, _: member  # the host's own archive, odd names included
        archive.extractall(_WORK)
    before = scan(_WORK)
    print(STARTED, flush=True)
    started = time.monotonic()
    try:
        process = start(limits, job["seed"])
    except OSError as error:
        report(job["nonce"], {"failed": f"no process could be started: {error}"})
        return
    facts = watch(process, limits)
    facts["wall_s"] = time.monotonic() - started
    after = scan(_WORK)
    room = limits.disk_mb * _MIB + job["given_bytes"]
    if facts["status"] in ("ok", "error") and after.disk_bytes > room:
        facts["status"] = "disk_limit"
    report(job["nonce"], facts | carry(before, after, room))


def start(limits: Limits, seed: int) -> "subprocess.Popen[bytes]":
    libraries = [path for path in sys.path if path.endswith("-packages")]
    code = os.open(os.path.join(_HERE, "main.py"), os.O_RDONLY)
    try:
        return subprocess.Popen(
            command(sys.executable, str(RUNNER), code, limits, seed, libraries),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            pass_fds=(code,), cwd=_WORK, start_new_session=True, env=environment(_WORK, _SCRATCH, seed),
        )  # fmt: skip
    finally:
        os.close(code)


def watch(process: "subprocess.Popen[bytes]", limits: Limits) -> dict[str, Any]:
    """Everything about the action but its files; all of its processes that can be found are dead then."""
    watched = Watch(process, limits, _WORK)
    struck = watched.wait()
    cpu = watched.usage.ru_utime + watched.usage.ru_stime
    return {
        "status": struck or exit_status(process.returncode, cpu >= limits.cpu_s),
        "exit_code": exit_code(process.returncode),
        "stdout": watched.out.text(), "stderr": watched.err.text(),
        "truncated": watched.out.dropped + watched.err.dropped,
        "cpu_s": cpu, "peak_rss": watched.usage.ru_maxrss * 1024,
    }  # fmt: skip


def carry(before: Snapshot, after: Snapshot, room: int) -> dict[str, Any]:
    """Write ``out.tar`` with what changed; what is left behind is named and counted."""
    known_first = sorted(after.entries, key=lambda path: path not in before.entries)
    paths, beyond = known_first[:MAX_ENTRIES], known_first[MAX_ENTRIES:]
    kept = unmoved(before, after, paths)
    with created("out.tar") as target:
        left = pack(target, after, [path for path in paths if path not in kept], room)
        size = target.tell()
        target.seek(0)
        digest = hashlib.sha256()
        while data := target.read(_MIB):
            digest.update(data)
    return {
        "kept": {shown(new): shown(old) for new, old in kept.items()},
        "left": left, "beyond": after.skipped + len(beyond),
        "tar_bytes": size, "tar_sha256": digest.hexdigest(),
    }  # fmt: skip


def unmoved(before: Snapshot, after: Snapshot, paths: Iterable[str]) -> dict[str, str]:
    """Files that need not travel, by path, with their path before: the same file, untouched or renamed."""
    gone = {entry.signature[1]: path for path, entry in before.entries.items() if path not in after.entries}
    kept = {}
    for path in paths:
        now, was = after.entries[path], before.entries.get(path)
        if now.kind != "file" or not now.digested:
            continue
        if was == now:
            kept[path] = path
        elif was is None and (old := gone.get(now.signature[1])):
            was = before.entries[old]  # a rename keeps mode, inode, size, mtime and content
            if (*was.signature[:4], was.sha256) == (*now.signature[:4], now.sha256):
                kept[path] = gone.pop(now.signature[1])
    return kept


def pack(target: IO[bytes], after: Snapshot, paths: Iterable[str], room: int) -> Mapping[str, str]:
    """Regular files and folders into ``target``; returns the others with the reason."""
    left = {}
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8") as archive:
        for path in paths:
            entry, info = after.entries[path], tarfile.TarInfo(path)
            info.mode = entry.signature[0] & 0o777
            if entry.kind == "dir":
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif entry.kind != "file":
                left[shown(path)] = entry.kind
            elif entry.size > room:
                left[shown(path)] = "too large"
            else:
                info.size = entry.size
                try:
                    with opened(path) as content:
                        archive.addfile(info, content)
                except WorkspaceError as error:
                    left[shown(path)] = str(error)
                else:
                    room -= entry.size
    return left


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    *above, name = path.split("/")
    folder = walk(_WORK, above)
    try:
        with open_file(name, folder) as stream:
            yield stream
    finally:
        os.close(folder)


def report(nonce: str, facts: Mapping[str, Any]) -> None:
    with created("rc.json") as target:
        target.write(json.dumps({"nonce": nonce, **facts}).encode())


@contextlib.contextmanager
def created(name: str) -> Iterator[BufferedRandom]:
    """A file beside this one that appears whole or not at all, whatever the agent's code put in its place."""
    ensure_folder(_HERE)
    path = os.path.join(_HERE, f"{name}.{secrets.token_hex(8)}")
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), "w+b") as target:
        yield target
    remove_tree(os.path.join(_HERE, name))
    os.rename(path, os.path.join(_HERE, name))


if __name__ == "__main__":
    main()
