"""A retriever over HTTP, right or misbehaving: what is the query's doing, and what is nobody's."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mappa_env.tools.base import CallLimits
from mappa_env.tools.calls import Written
from mappa_env.tools.entry import ToolEntry
from mappa_env.tools.http import NotSent, Reply
from mappa_env.tools.toolbox import Toolbox
from mappa_env.types import AgentSpec, Team, ToolCall

BOMB = gzip.compress(b"0" * (16 << 20))
KEY = "retriever-canary-5512"
AGENT = AgentSpec("scout_0", "Scout", 4, ("wiki",))
LIMITS = CallLimits(wall_s=1.5, result_cap_kb=64, result_chars=400)


class Handler(BaseHTTPRequestHandler):
    """Misbehaves as the query asks; ``server.down`` is the status with which it fails on everything."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        query = asked["queries"][0]
        server: Any = self.server
        server.seen.append((asked, dict(self.headers)))
        headers = {}
        rows: Any = [[{"document": {"contents": f'"Title"\n{query}'}, "score": 0.5}] * asked["topk"]]
        body, status = json.dumps({"result": rows}).encode(), server.down or 200
        match query:
            case "crash":
                status = 500
            case "break":
                self.close_connection = True
                self.connection.close()
                return
            case "refuse":
                status = 422
            case "' OR 1=1":
                status = 403
            case "stall":
                time.sleep(4)
            case "flood":
                body = b"x" * (1 << 20)
            case "bomb":
                body, headers = BOMB, {"Content-Encoding": "gzip"}
            case "lie":
                body = b'{"result": {"documents": 3}}'
            case "echo":
                body = json.dumps({"result": [[{"contents": str(self.headers["Authorization"])}]]}).encode()
            case "drip":
                self.send_response(200)
                self.end_headers()
                for _ in range(100):
                    self.wfile.write(b" ")
                    time.sleep(0.1)
                return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        return None


@pytest.fixture
def server() -> Iterator[Any]:
    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments: Any) -> None:
            return None

    made: Any = Quiet(("127.0.0.1", 0), Handler)
    made.seen, made.down = [], 0
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def box(server: Any, monkeypatch: pytest.MonkeyPatch) -> Toolbox:
    monkeypatch.setenv("WIKI_KEY", KEY)
    options = {
        "url": f"http://127.0.0.1:{server.server_address[1]}/retrieve",
        "headers": {"Authorization": "Bearer $WIKI_KEY"},
        "top": 2,
    }
    made = Toolbox([ToolEntry("wiki", "retriever", options, LIMITS)], Team((AGENT,)))
    made.open()
    return made


def ask(box: Toolbox, query: str) -> ToolCall:
    (call,) = box.carry_out([Written("wiki", {"query": query})], AGENT, (), 0)
    assert KEY not in repr(call)
    return call


def test_the_request_has_the_form_of_search_r1(box: Toolbox, server: Any) -> None:
    call = ask(box, "the Sarn")
    assert (call.status, call.attester) == ("ok", "server")
    assert call.text == '[1] "Title"\nthe Sarn\n\n[2] "Title"\nthe Sarn'
    asked, headers = server.seen[0]
    assert asked == {"queries": ["the Sarn"], "topk": 2, "return_scores": True}
    assert headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("crash", "error"),
        ("break", "error"),
        ("refuse", "error"),
        ("' OR 1=1", "error"),
        ("lie", "error"),
        ("bomb", "error"),
        ("stall", "timeout"),
        ("drip", "timeout"),
        ("flood", "output_limit"),
    ],
)
def test_a_query_that_the_server_fails_on_is_the_querys_doing(box: Toolbox, query: str, status: str) -> None:
    began = time.monotonic()
    assert ask(box, query).status == status
    assert time.monotonic() - began < 5


def test_a_server_that_fails_on_everything_is_unavailable(box: Toolbox, server: Any) -> None:
    for status in (301, 401, 403, 404, 422, 429, 503):
        server.down = status
        assert ask(box, "the Sarn").status == "unavailable"
    server.down = 0
    assert ask(box, "the Sarn").status == "ok"
    server.shutdown()
    server.server_close()
    gone = ask(box, "the Sarn")
    assert gone.status == "unavailable"
    assert "cannot be reached" in gone.text


def test_a_query_that_takes_all_the_time_and_fails_is_a_timeout(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has no time left for a question of its own, so the server is not shown to be down."""

    def late(url: str, payload: Any, headers: Any, *, deadline: float, cap: int) -> Reply:
        if payload["queries"] != ["slow"]:
            raise NotSent("no connection in time")
        time.sleep(max(deadline - time.monotonic(), 0.0))
        return Reply(504, b"", True)

    monkeypatch.setattr("mappa_env.tools.retriever.post", late)
    assert ask(box, "slow").status == "timeout"


def test_a_key_that_the_server_repeats_is_hidden(box: Toolbox) -> None:
    assert ask(box, "echo").text == "[1] Bearer [$WIKI_KEY]"


def test_the_key_is_sent_whatever_the_users_netrc_has(
    box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login me password of-another-service")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert ask(box, "echo").text == "[1] Bearer [$WIKI_KEY]"
