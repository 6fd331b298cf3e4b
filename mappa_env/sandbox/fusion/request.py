"""Builds the bodies of POST ``/run_code``: the handshake and the actions."""

from __future__ import annotations

import base64
import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.transfer import pack
from mappa_env.workspace.workspace import Workspace

MARGIN_S = 60.0
"""Seconds that the wrapper may take in addition to the action: start, unpack, digest and pack."""
HELLO = "hello.json"
_PACKAGE = Path(__file__).parents[2]
_MODULES = (
    "errors.py",
    "sandbox/action_file.py",
    "sandbox/base.py",
    "sandbox/fusion/carry.py",
    "sandbox/fusion/guard.py",
    "sandbox/launch.py",
    "sandbox/output.py",
    "sandbox/runner.py",
    "sandbox/tree.py",
    "sandbox/watch.py",
    *sorted(path.relative_to(_PACKAGE).as_posix() for path in (_PACKAGE / "types").glob("*.py")),
    "workspace/digests.py",
    "workspace/escaping.py",
    "workspace/nofollow.py",
    "workspace/pruning.py",
    "workspace/scanning.py",
    "workspace/snapshot.py",
)
"""Modules that the wrapper imports; they use only the standard library."""
_FOLDERS = ("", "sandbox/", "sandbox/fusion/", "workspace/")


def handshake() -> dict[str, Any]:
    """The request that asks which Python runs the code, and as whom."""
    return _body(source("handshake.py"), {}, [HELLO], MARGIN_S)


def action(
    workspace: Workspace, code: str, limits: Limits, *, seed: int, nonce: str, room: int
) -> dict[str, Any]:
    """The request for one action; ``room``: bytes that may come back. Raises SandboxError, WorkspaceError.

    The workspace is one archive, not a file per path: the server's own unpacking follows ``..`` and absolute
    names and drops some files, and JSON cannot carry names that are not UTF-8.
    """
    job = {"nonce": nonce, "seed": seed, "room": room, "limits": dataclasses.asdict(limits)}
    files = {"main.py": _base64(code.encode("utf-8", "replace")), "in.tar": _base64(pack(workspace))}
    body = _body(
        source("wrapper.py"), files | _modules(), [report(nonce), archive(nonce)], limits.wall_s + MARGIN_S
    )
    return body | {"stdin": json.dumps(job)}


def report(nonce: str) -> str:
    """The name of the wrapper's report."""
    return f"{nonce}.json"


def archive(nonce: str) -> str:
    """The name of the wrapper's archive."""
    return f"{nonce}.tar"


@cache
def source(name: str) -> str:
    """The text of a program that runs on the server."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _body(code: str, files: dict[str, str], fetch: list[str], run_s: float) -> dict[str, Any]:
    return {
        "language": "python",
        "code": code,
        "files": files,
        "fetch_files": fetch,
        "run_timeout": run_s,
        "compile_timeout": 10,
        "memory_limit_MB": -1,
    }


@cache
def _modules() -> dict[str, str]:
    """The modules that the wrapper imports, as ``files``."""
    empty = {f"mappa_env/{folder}__init__.py": "" for folder in _FOLDERS}
    return empty | {f"mappa_env/{name}": _base64((_PACKAGE / name).read_bytes()) for name in _MODULES}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
