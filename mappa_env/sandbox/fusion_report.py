"""What came back from the wrapper on a SandboxFusion server, and how much of it is to be believed.

Two kinds of failure are kept apart. Whatever the server failed at is a ``ServerError``: no word about the
agent. But once the agent's code has started, a missing or impossible report may be its doing, and must not
void the action: ``NoReport`` and ``TransferError``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, NoReturn

import pydantic

from mappa_env.errors import SandboxError
from mappa_env.names import meant, shown
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.fusion_client import Reply, ServerError
from mappa_env.sandbox.transfer import TransferError, Tree, unpack

_SHOWN = 10
"""How many of the entries that stayed behind are named."""
_TAIL = 400
_MARK = 100
"""Characters that may come on top of the output that is kept: the mark of what was dropped."""


class NoReport(SandboxError):
    """The code started, and no report of the wrapper came back; ``status`` says what that means."""

    def __init__(self, status: Literal["timeout", "killed"], reason: str) -> None:
        super().__init__(reason)
        self.status: Literal["timeout", "killed"] = status


class Report(pydantic.BaseModel):
    """``rc.json``. ``kept``: files that did not travel, with their path before; ``left``: those that could
    not travel, with the reason; ``beyond``: how many entries are over the limits on a listing. Paths are in
    the escaped form of ``mappa_env.names.shown``."""

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
    left: dict[str, str] = {}
    beyond: int = 0
    tar_bytes: int = 0
    tar_sha256: str = ""

    def note(self) -> str:
        """A line about what stayed on the server; empty if nothing did."""
        names = [f"{reason[:40]} {path[:200]}" for path, reason in list(self.left.items())[:_SHOWN]]
        more = len(self.left) - len(names) + self.beyond
        if not names and not more:
            return ""
        listed = ", ".join(name if name.isprintable() else shown(name) for name in names)
        return f"\n[not carried back from the server: {listed}{f' and {more} more' if more else ''}]\n"


def read_report(reply: Reply, nonce: str, limits: Limits) -> Report:
    """The wrapper's report. Raises ServerError, NoReport, or TransferError for a forged one."""
    raw = reply.file("rc.json")
    if raw is None:
        _explain(reply)
    try:
        report = Report.model_validate_json(raw)
    except pydantic.ValidationError:
        if nonce.encode() in raw[:100]:
            raise ServerError(f"the server cut rc.json after {len(raw)} bytes") from None
        raise NoReport("killed", "rc.json was not written by the wrapper on the server") from None
    if report.nonce != nonce:
        raise NoReport("killed", "rc.json was not written by the wrapper on the server")
    if report.failed:
        raise ServerError(f"the server failed: {report.failed[:_TAIL]}")
    if max(len(report.stdout), len(report.stderr)) > limits.output_kb * 1024 + _MARK:
        raise TransferError("more output came back than the limit allows")
    return report


def read_files(reply: Reply, report: Report, room: int) -> tuple[Tree, Mapping[str, str]]:
    """What the workspace shall hold: the files that travelled (at most ``room`` bytes), and those kept."""
    archive = reply.file("out.tar")
    arrived = len(archive or b"")
    if archive is None or arrived < report.tar_bytes:
        raise ServerError(f"the server cut out.tar: {arrived} of {report.tar_bytes} bytes arrived")
    if hashlib.sha256(archive).hexdigest() != report.tar_sha256:
        raise TransferError("out.tar is not the one that the wrapper wrote")
    return unpack(archive, room), {meant(new): meant(old) for new, old in report.kept.items()}


def _explain(reply: Reply) -> NoReturn:
    """Why there is no report. The wrapper prints before anything of the agent's can run, and only then."""
    result = reply.run_result
    if result is None or result.status == "Error":
        words = reply.message or (result.stderr if result else "") or "no reason given"
        raise ServerError(f"the server failed: {words[-_TAIL:]}")
    late = result.status == "TimeLimitExceeded"
    if not result.stdout:
        why = "not within the time limit" if late else (result.stderr or "no reason given").strip()[-_TAIL:]
        raise ServerError(f"the server did not come to start the action: {why}")
    if late:
        raise NoReport("timeout", "the server ended the action at its own time limit; there is no report")
    raise NoReport(
        "killed", "the wrapper on the server ended without a report: the action may have killed it"
    )
