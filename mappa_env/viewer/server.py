"""The viewer's server: read-only, on the loopback interface, for one browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from mappa_env.errors import DataError, OptionError
from mappa_env.viewer.collection import Collection
from mappa_env.viewer.page import (
    REPORT,
    SCRIPT,
    STYLE,
    VIEWER,
    asset,
    report_policy,
    served_page,
    served_policy,
)
from mappa_env.viewer.plain import to_json

LOOPBACK = "127.0.0.1"
_EPISODE = re.compile(r"/api/episodes/([0-9]{1,9})")
_HTML, _JS, _CSS, _JSON = "text/html", "text/javascript", "text/css", "application/json"


class ViewerServer(ThreadingHTTPServer):
    """Serves ``collection`` at ``port`` of the loopback interface; 0: any free one. ``url`` says where.

    It answers GET and HEAD for fixed addresses and episode numbers, so no address reaches a file. A request
    with another Host header is refused, because a foreign web page could send it under a name of its own that
    leads here. Raises OptionError if the port is taken.
    """

    daemon_threads = True

    def __init__(self, collection: Collection, port: int = 0) -> None:
        self.collection = collection
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "the highest port is 65535"
            raise OptionError(f"--port {port} cannot be used: {why}. 0 takes any free one.") from None
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{LOOPBACK}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: ViewerServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "mappa-viewer", ""
    timeout = 60  # seconds that an idle connection is kept

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            self._send(403, "text/plain", f"This viewer is at {self.server.url} alone.\n")
            return
        self._send(*self._found())

    def _found(self) -> tuple[int, str, str]:
        """Status, type and content of the answer."""
        try:
            kind, make = self._route()
            return 200, kind, make()
        except (LookupError, ValueError):
            return 404, "text/plain", "There is nothing at this address.\n"
        except (DataError, OSError) as error:  # damaged, removed meanwhile, or closed to this user
            return 500, _JSON, to_json({"error": str(error)})

    def _route(self) -> tuple[str, Callable[[], str]]:
        """What is at the address. Raises LookupError or ValueError if it is nothing."""
        url, collection = urlsplit(self.path), self.server.collection
        if found := _EPISODE.fullmatch(url.path):
            return _JSON, lambda: collection.episode(int(found[1]))
        since = int(parse_qs(url.query).get("since", ["0"])[0])
        routes: dict[str, tuple[str, Callable[[], str]]] = {
            "/": (_HTML, lambda: served_page(collection.title)),
            f"/{VIEWER}": (_HTML, lambda: served_page(collection.title)),  # as the report's links call it
            f"/{REPORT}": (_HTML, collection.report),
            f"/{SCRIPT}": (_JS, lambda: asset(SCRIPT)),
            f"/{STYLE}": (_CSS, lambda: asset(STYLE)),
            "/api/about": (_JSON, collection.about),
            "/api/episodes": (_JSON, lambda: collection.changes(since)),
            "/api/metrics": (_JSON, collection.metrics),
        }
        return routes[url.path]

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        policy = report_policy() if urlsplit(self.path).path == f"/{REPORT}" else served_policy()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the browser has left the page, and nobody waits for the rest

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: addresses are a reader's business."""
