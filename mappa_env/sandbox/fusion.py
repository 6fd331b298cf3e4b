"""The ``fusion`` backend: SandboxFusion servers over HTTP. How to run one: docs/fusion.md.

Whole workspaces travel: packed into the request, and what changed comes back as an archive that the host
reads with distrust (``transfer.py``). On the server a wrapper of ours (``fusion_wrapper.py``) bounds and
watches the action just as the ``process`` backend does. How well the code is confined is up to the server.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import secrets
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import mappa_env
from mappa_env.errors import OptionError, SandboxError
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.fusion_client import Client
from mappa_env.sandbox.fusion_report import NoReport, Report, read_files, read_report
from mappa_env.sandbox.transfer import TransferError, Tree, apply, pack
from mappa_env.types import FileChange
from mappa_env.workspace import Workspace

MARGIN_S = 60.0
"""What the wrapper may take beside the action itself: start, unpack, digest and pack, on a busy server."""
PATIENCE_S = 60.0
"""How late an answer may come after the server's own limit; a crowded server is late by many seconds."""
_SPARE_BYTES = 32 * 2**20
"""Room for everything in an answer that is not the content of a file."""
_MIB = 2**20
_WRAPPER = "sandbox/fusion_wrapper.py"
_MODULES = (
    "errors.py", "folders.py", "names.py", "trail.py", "types.py", "sandbox/base.py", "sandbox/launch.py",
    "sandbox/output.py", "sandbox/runner.py", "sandbox/tree.py", "sandbox/watch.py",
)  # fmt: skip
"""What the wrapper imports; all of it standard library only."""


class FusionSandbox:
    """``url``: a server's address, with credentials if a proxy before it wants them.

    At most ``concurrency`` actions are under way at once: the server has no queue, and slows all of them
    down when it has too many. Safe to use from many threads.
    """

    name = "fusion"
    isolation = "fusion"

    def __init__(self, url: str, concurrency: int = 8) -> None:
        if concurrency < 1:
            raise OptionError(f"concurrency={concurrency!r}: at least one action must be allowed.")
        self._client = Client(url)
        self._slots = threading.BoundedSemaphore(concurrency)
        self._met = False

    def open_workspace(self) -> Workspace:
        return Workspace()

    def close(self) -> None:
        return None

    def check(self) -> None:
        """Raises SandboxError, with the reason, if no SandboxFusion server answers at the address."""
        self._client.ping()

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. Times and statuses are the server's word: ``trust`` is ``"sandbox"``.

        ``unavailable``: the server failed, or never came to start the code; the workspace is unchanged.
        ``killed``, ``timeout`` with that reason: the code started, and no report of the wrapper came back.
        """
        asked = time.monotonic()
        with self._slots:
            queued = time.monotonic() - asked
            try:
                result = self._run(workspace, code, limits, seed)
            except (OSError, SandboxError) as error:
                result = Result("unavailable", None, "", f"the sandbox could not work: {error}")
        return dataclasses.replace(result, isolation=self.isolation, trust="sandbox", queued_s=queued)

    def _run(self, workspace: Workspace, code: str, limits: Limits, seed: int) -> Result:
        if not self._met:
            self.check()
            self._met = True
        workspace.home.ready()
        nonce, room = secrets.token_hex(16), limits.disk_mb * _MIB + workspace.given_bytes
        body = _request(workspace, code, limits, seed, nonce)
        started = time.monotonic()
        reply = self._client.run_code(body, body["run_timeout"] + PATIENCE_S, 2 * (room + _SPARE_BYTES))
        elapsed = time.monotonic() - started
        try:
            report = read_report(reply, nonce, limits)
            tree, kept = read_files(reply, report, room)
            return _applied(workspace, report, tree, kept)
        except NoReport as error:
            return Result(error.status, None, "", str(error), wall_s=elapsed)
        except TransferError as error:
            return Result("killed", None, "", f"what came back is refused: {error}", wall_s=elapsed)


def _applied(workspace: Workspace, report: Report, tree: Tree, kept: Mapping[str, str]) -> Result:
    """The result, with the workspace brought to the state that the action left on the server."""
    before, status, stderr = workspace.snapshot, report.status, report.stderr + report.note()
    files: tuple[FileChange, ...] = ()
    try:
        apply(workspace, tree, kept)
        files = workspace.changes(before, workspace.scan())
    except OSError as error:
        status, stderr = "killed", f"{stderr}\nthe workspace cannot be written: {error}"
    return Result(
        status, report.exit_code, report.stdout, stderr, report.truncated, report.wall_s, report.cpu_s,
        report.peak_rss, files,
    )  # fmt: skip


def _request(workspace: Workspace, code: str, limits: Limits, seed: int, nonce: str) -> dict[str, Any]:
    """The body of POST ``/run_code``.

    The workspace is one archive and not a file per path: the server's own unpacking follows ``..`` and
    absolute names and drops some, and JSON cannot carry names that are not UTF-8.
    """
    wrapper, modules = _bundle()
    job = {
        "nonce": nonce, "seed": seed, "given_bytes": workspace.given_bytes,
        "limits": dataclasses.asdict(limits),
    }  # fmt: skip
    files = {"main.py": _base64(code.encode("utf-8", "replace")), "in.tar": _base64(pack(workspace))}
    return {
        "language": "python", "code": wrapper, "stdin": json.dumps(job), "files": files | modules,
        "fetch_files": ["rc.json", "out.tar"],
        "run_timeout": limits.wall_s + MARGIN_S, "compile_timeout": 10, "memory_limit_MB": -1,
    }  # fmt: skip


@cache
def _bundle() -> tuple[str, dict[str, str]]:
    """The wrapper's text, and the modules that it imports, as ``files``."""
    root = Path(mappa_env.__file__).parent
    modules = {f"mappa_env/{name}": _base64((root / name).read_bytes()) for name in _MODULES}
    modules |= {f"mappa_env/{name}": "" for name in ("__init__.py", "sandbox/__init__.py")}
    return (root / _WRAPPER).read_text(encoding="utf-8"), modules


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
