"""W&B's own services on loopback, as its clients see them; and its files, read by their published layout."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_VIEWER = {"viewer": {"username": "me", "entity": "team", "defaultEntity": {"name": "team"}}}
_BLOCK, _HEADER = 32 * 1024, 7
_FULL, _FIRST = 1, 2


@dataclass
class FakeWeave:
    """The trace server of Weave, and W&B's service for accounts. ``broken``: it closes connections."""

    url: str = ""
    broken: bool = False
    requests: list[tuple[str, bytes]] = field(default_factory=list)

    def calls(self) -> list[dict[str, Any]]:
        """The traced calls that arrived, in the order of their beginnings."""
        found = [
            call
            for path, body in self.requests
            if path.endswith("/calls/complete")
            for call in json.loads(body)["batch"]
        ]
        return sorted(found, key=lambda call: str(call["started_at"]))


@contextmanager
def serving_weave() -> Iterator[FakeWeave]:
    fake = FakeWeave()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if fake.broken:
                self.close_connection = True
                return
            fake.requests.append((self.path, body))
            data = json.dumps(_answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        fake.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield fake
        finally:
            server.shutdown()


def _answer(path: str) -> dict[str, Any]:
    if path == "/server_info":
        return {"min_required_weave_python_version": "0.0.1", "trace_server_version": "99.0.0"}
    if path == "/graphql":
        return {"data": {**_VIEWER, "project": {"name": "teams"}}}
    return {"id": "1", "trace_id": "1", "digest": "d"}


def records(path: Path) -> Iterator[bytes]:
    """The records of a ``.wandb`` file: LevelDB's log format, after 7 bytes of the file's own.

    github.com/google/leveldb/blob/main/doc/log_format.md: blocks of 32 KiB; each fragment has a checksum (4
    bytes), a length (2) and a type (1): whole, first, middle, last.
    """
    data, at, record = path.read_bytes(), _HEADER, b""
    assert data[:4] == b":W&B"
    while at + _HEADER <= len(data):
        if _BLOCK - at % _BLOCK < _HEADER:  # the rest of a block is too short for a header
            at += _BLOCK - at % _BLOCK
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        fragment = data[at + _HEADER : at + _HEADER + size]
        at += _HEADER + size
        record = fragment if kind in (_FULL, _FIRST) else record + fragment
        if kind in (_FULL, 4):
            yield record
