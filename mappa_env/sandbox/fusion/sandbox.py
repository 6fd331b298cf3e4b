"""The ``fusion`` backend: SandboxFusion servers over HTTP. How to run one: docs/fusion.md.

A request carries the whole workspace; changed files come back in an archive that the host does not trust
(``transfer.py``). On the server our wrapper (``wrapper.py``) limits and watches the action as the ``process``
backend does. The server is responsible for confining the code.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
import warnings
from collections.abc import Mapping

from mappa_env.errors import OptionError, SandboxError, SandboxWarning
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.fusion import request
from mappa_env.sandbox.fusion.client import Client
from mappa_env.sandbox.fusion.report import NoReport, Report, read_files, read_hello, read_report
from mappa_env.sandbox.transfer import MAX_PACK_BYTES, TransferError, Tree, apply
from mappa_env.types import FileChange
from mappa_env.workspace.escaping import meant
from mappa_env.workspace.workspace import Workspace

PATIENCE_S = 60.0
"""Seconds to wait for an answer beyond the server's own limit; a busy server is often late."""
_SPARE_BYTES = 32 * 2**20
"""Bytes of an answer that are not the content of a file, at most."""
_MIB = 2**20


class FusionSandbox:
    """Runs actions on the server at ``url``, which may contain credentials for a proxy. Thread-safe.

    At most ``concurrency`` actions are in flight at once: the server has no queue, and too many actions slow
    all of them down.
    """

    name = "fusion"
    isolation = "fusion"

    def __init__(self, url: str, concurrency: int = 8) -> None:
        if concurrency < 1:
            raise OptionError(f"concurrency={concurrency!r} must be at least 1.")
        self._client = Client(url)
        self._slots = threading.BoundedSemaphore(concurrency)
        self._meeting = threading.Lock()
        self._met = False

    def open_workspace(self) -> Workspace:
        """A plain folder on this machine; its content is sent with every action."""
        return Workspace()

    def close(self) -> None:
        """Do nothing: no connection outlives its request."""
        return None

    def check(self) -> None:
        """Ask the server whether it can run actions. Raises SandboxError with the reason if it cannot.

        Emits a SandboxWarning if code runs there as the server's own user: it can then forge its results.
        """
        self._client.ping()
        body = request.handshake()
        hello = read_hello(self._client.run_code(body, body["run_timeout"] + PATIENCE_S, _SPARE_BYTES))
        if hello.uid in (0, hello.server_uid):
            warnings.warn(
                f"the SandboxFusion server at {self._client.url} runs agents' code as its own user (uid "
                f"{hello.uid}), so the code can forge its results. Start the server as root with 'set_uid: "
                "65534' under 'sandbox' in its configuration; see docs/fusion.md.",
                SandboxWarning,
                stacklevel=2,
            )

    def run(self, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0) -> Result:
        """See ``Sandbox.run``. The server measures times and statuses, so ``trust`` is ``"sandbox"``.

        ``unavailable``: the server failed or never started the code; the workspace is unchanged. ``killed``
        or ``timeout`` without an exit code: the code started, but no valid report came back.
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
        self._meet()
        workspace.storage.ready()
        # Beyond what can be sent, an action's files would make the next one void.
        room = min(limits.disk_mb * _MIB + workspace.given_bytes, MAX_PACK_BYTES)
        nonce = secrets.token_hex(16)
        body = request.action(workspace, code, limits, seed=seed, nonce=nonce, room=room)
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

    def _meet(self) -> None:
        """Check the server before the first action, once."""
        if not self._met:
            with self._meeting:
                if not self._met:
                    self.check()
                    self._met = True


def _applied(workspace: Workspace, report: Report, tree: Tree, kept: Mapping[str, str]) -> Result:
    """Bring the workspace to the state that the action left on the server, and return the result."""
    before, status, stderr = workspace.snapshot, report.status, report.stderr + report.note()
    files: tuple[FileChange, ...] = ()
    try:
        modes = {meant(path): mode for path, mode in report.modes.items()}
        apply(workspace, tree, kept, modes, {meant(new): meant(old) for new, old in report.linked.items()})
        files = workspace.changes(before, workspace.scan())
    except OSError as error:
        status, stderr = "killed", f"{stderr}\nthe workspace cannot be written: {error}"
    return Result(
        status,
        report.exit_code,
        report.stdout,
        stderr,
        report.truncated,
        report.wall_s,
        report.cpu_s,
        report.peak_rss,
        files,
        opened=None if report.opened is None else tuple(report.opened),
    )
