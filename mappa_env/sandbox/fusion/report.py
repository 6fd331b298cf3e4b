"""Reads and checks what the wrapper on a SandboxFusion server sent back.

A failure of the server is a ``ServerError``, for which the agent is not to blame. Once the agent's code has
started, a missing or impossible report may be its doing and must not void the action: ``NoReport`` and
``TransferError``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal, NoReturn

import pydantic

from mappa_env.errors import SandboxError
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.fusion import request
from mappa_env.sandbox.fusion.causes import last_line
from mappa_env.sandbox.fusion.client import Reply, ServerError
from mappa_env.sandbox.fusion.wrapper import CRASHED
from mappa_env.sandbox.runner import NOTES
from mappa_env.sandbox.transfer import TransferError, Tree, unpack
from mappa_env.workspace.escaping import meant, shown

OLDEST_PYTHON = (3, 10)
"""The oldest Python that runs the wrapper and the modules that it imports."""
_SHOWN = 10
"""Dropped entries that a message names at most."""
_NOT_STARTED = frozenset(range(1, 128)) - {CRASHED}
"""Exit codes of a shell without Python, and of a wrapper that failed before the start."""
_MARK = 100
"""Extra characters allowed for the mark that replaces dropped output."""


class NoReport(SandboxError):
    """The code started, but the wrapper sent no valid report; ``status`` is the action's status."""

    def __init__(self, status: Literal["timeout", "killed"], reason: str) -> None:
        super().__init__(reason)
        self.status: Literal["timeout", "killed"] = status


class Hello(pydantic.BaseModel):
    """What the handshake tells: the server's Python, the user that code runs as, and the server's own."""

    python: tuple[int, int, int]
    uid: int
    server_uid: int


class Report(pydantic.BaseModel):
    """The wrapper's report. Paths are escaped by ``mappa_env.workspace.escaping.shown``.

    ``kept``: unchanged or renamed files that were not sent, with their earlier path; ``modes``: permissions
    of the renamed ones; ``linked``: hard links, with another name of the file. ``left``: files that could
    not be sent, with the reason. ``beyond``: number of new entries beyond the limits of a listing.
    """

    model_config = pydantic.ConfigDict(strict=True)

    nonce: str
    failed: str = ""
    status: Literal["ok", "error", "timeout", "memory", "killed", "output_limit", "disk_limit"] = "ok"
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: int = pydantic.Field(0, ge=0)
    wall_s: float = pydantic.Field(0.0, ge=0, allow_inf_nan=False)
    cpu_s: float = pydantic.Field(0.0, ge=0, allow_inf_nan=False)
    peak_rss: int = pydantic.Field(0, ge=0)
    kept: dict[str, str] = {}
    modes: dict[str, Annotated[int, pydantic.Field(ge=0, le=0o777)]] = {}
    linked: dict[str, str] = {}
    left: dict[str, str] = {}
    beyond: int = 0
    opened: list[Annotated[str, pydantic.Field(max_length=10 * NOTES)]] | None = pydantic.Field(
        None, max_length=NOTES
    )
    tar_bytes: int = 0
    tar_sha256: str = ""

    def note(self) -> str:
        """A line that names the files left on the server; empty if there are none."""
        names = [f"{reason[:40]} {path[:200]}" for path, reason in list(self.left.items())[:_SHOWN]]
        more = len(self.left) - len(names) + self.beyond
        if not names and not more:
            return ""
        listed = [", ".join(name if name.isprintable() else shown(name) for name in names)] if names else []
        beyond = [f"{more} more"] if more else []
        return f"\n[not carried back from the server: {' and '.join(listed + beyond)}]\n"


def read_hello(reply: Reply) -> Hello:
    """What the server said in the handshake. Raises ServerError if it cannot run actions."""
    raw = reply.file(request.HELLO)
    try:
        hello = Hello.model_validate_json(raw or b"")
    except pydantic.ValidationError:
        raise ServerError(_why_not_started(reply)) from None
    if hello.python < OLDEST_PYTHON:
        raise ServerError(
            f"the server's Python is {_version(hello.python)}; actions need {_version(OLDEST_PYTHON)} "
            "or newer"
        )
    return hello


def read_report(reply: Reply, nonce: str, limits: Limits) -> Report:
    """Parse the wrapper's report. Raises ServerError, NoReport or, for a forged report, TransferError."""
    raw = reply.file(request.report(nonce))
    if raw is None:
        _explain(reply)
    try:
        report = Report.model_validate_json(raw)
    except pydantic.ValidationError:
        if nonce.encode() in raw[:100]:
            raise ServerError(f"the server truncated the report after {len(raw)} bytes") from None
        raise NoReport("killed", "the report was not written by the wrapper on the server") from None
    if report.nonce != nonce:
        raise NoReport("killed", "the report was not written by the wrapper on the server")
    if report.failed:
        raise ServerError(f"the server failed: {report.failed}")
    if max(len(report.stdout), len(report.stderr)) > limits.output_kb * 1024 + _MARK:
        raise TransferError("more output came back than the limit allows")
    return report


def read_files(reply: Reply, report: Report, room: int) -> tuple[Tree, Mapping[str, str]]:
    """The new state of the workspace: files that were sent (at most ``room`` bytes), and files to keep."""
    archive = reply.file(request.archive(report.nonce))
    arrived = len(archive or b"")
    if archive is None or arrived < report.tar_bytes:
        raise ServerError(f"the server truncated the archive: {arrived} of {report.tar_bytes} bytes arrived")
    if hashlib.sha256(archive).hexdigest() != report.tar_sha256:
        raise TransferError("the archive is not the one that the wrapper wrote")
    return unpack(archive, room), {meant(new): meant(old) for new, old in report.kept.items()}


def _explain(reply: Reply) -> NoReturn:
    """Raise the error for a missing report.

    Once the agent's code may have run, it is to blame. What the wrapper printed shows that, and so does how
    it ended: only code can have ended it by a signal, or removed the report of one that ended well.
    """
    result = reply.run_result
    if result is None or result.status == "Error":
        raise ServerError(_why_not_started(reply))
    if result.status == "TimeLimitExceeded":
        if not result.stdout:
            raise ServerError(_why_not_started(reply))
        raise NoReport("timeout", "the server ended the action at its own time limit; there is no report")
    if not result.stdout and result.return_code in _NOT_STARTED:
        raise ServerError(_why_not_started(reply))
    raise NoReport(
        "killed", "the wrapper on the server ended without a report: the action may have killed it"
    )


def _why_not_started(reply: Reply) -> str:
    result = reply.run_result
    if result is None or result.status == "Error":
        why = reply.message or last_line((result.stderr if result else "") or "")
        return f"the server failed: {why}"
    late = result.status == "TimeLimitExceeded"
    why = "not within the time limit" if late else last_line(result.stderr or "")
    return f"the server did not start the action: {why}"


def _version(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
