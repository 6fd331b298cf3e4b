"""The viewer's server: read-only, for one host, with nothing but the page and its episodes."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mappa_env.errors import DataError, OptionError
from mappa_env.trace import TraceStore
from mappa_env.types import Outcome, Task, Trajectory
from mappa_env.viewer.collection import Collection, open_collection
from mappa_env.viewer.server import ViewerServer
from recorded import recorded
from served import served


def episode(task: str = "t", seed: int = 0) -> Trajectory:
    return Trajectory(
        "mappa/X-v0", Task(task, "p", "exact_match"), seed, (recorded(),), Outcome(1.0, True, "ok", "")
    )


def write(path: Path, *tasks: str) -> None:
    store = TraceStore(path)
    for task in tasks:
        store.append(episode(task))
    store.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ViewerServer]:
    (tmp_path / "secret.txt").write_text("secret")
    write(tmp_path / "traces" / "before.jsonl", "a", "b")
    with served(tmp_path) as found:
        yield found


def ask(
    server: ViewerServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.putrequest(method, path, skip_host=True)
        for name, value in {"Host": f"127.0.0.1:{server.server_port}", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_the_report_of_a_run_is_served_and_cannot_run_anything(server: ViewerServer, tmp_path: Path) -> None:
    assert ask(server, "/report.html")[0] == 404
    assert json.loads(ask(server, "/api/about")[2])["report"] is False
    (tmp_path / "report.html").write_text("of nothing")
    assert ask(server, "/report.html")[0] == 404  # not the folder of a run
    (tmp_path / "config.yaml").write_text("env: {id: mappa/MathChat-v0}")
    with served(tmp_path) as run:
        status, headers, text = ask(run, "/report.html")
        assert (status, text) == (200, "of nothing")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'unsafe-inline';")
        assert json.loads(ask(run, "/api/about")[2])["report"] is True
        assert ask(run, "/viewer.html")[2] == ask(run, "/")[2]


def test_a_page_that_is_closed_while_it_loads_is_no_error(
    server: ViewerServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server.collection, "changes", lambda since: "x" * 30_000_000)
    others = {*threading.enumerate()}  # of servers in other tests, which may wait for their clients
    with socket.create_connection(("127.0.0.1", server.server_port)) as leaving:
        leaving.sendall(
            f"GET /api/episodes HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode()
        )
        leaving.recv(10)
    assert ask(server, "/api/about")[0] == 200
    for thread in {*threading.enumerate()} - others:
        thread.join(5)
    assert capfd.readouterr().err == ""


def test_it_listens_on_the_loopback_interface_alone(server: ViewerServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_it_serves_the_page_the_list_and_each_episode(server: ViewerServer) -> None:
    status, headers, page = ask(server, "/")
    assert status == 200
    assert '<div id="viewer">' in page
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for name in ("viewer.js", "viewer.css"):
        assert ask(server, f"/{name}")[0] == 200
    found = json.loads(ask(server, "/api/episodes?since=0")[2])
    assert [found["names"][row[4]] for row in found["rows"]] == ["a", "b"]
    assert json.loads(ask(server, "/api/episodes/1")[2])["task"]["id"] == "b"
    assert json.loads(ask(server, "/api/metrics")[2]) == []


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "0.0.0.0:80", "", "127.0.0.1:80@evil.example"],
)
def test_another_host_name_is_refused(server: ViewerServer, host: str) -> None:
    status, _, text = ask(server, "/api/episodes/0", Host=host)
    assert status == 403
    assert "prompt" not in text


def test_a_request_without_a_host_name_is_refused(server: ViewerServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest("GET", "/api/episodes", skip_host=True)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


def test_localhost_is_the_same_host(server: ViewerServer) -> None:
    assert ask(server, "/", Host=f"localhost:{server.server_port}")[0] == 200


def test_no_other_origin_may_read_it(server: ViewerServer) -> None:
    _, headers, _ = ask(server, "/api/episodes", Origin="https://evil.example")
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_it_only_reads(server: ViewerServer, method: str) -> None:
    assert ask(server, "/api/episodes/0", method)[0] == 501


def test_head_has_no_body(server: ViewerServer) -> None:
    status, headers, text = ask(server, "/", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 100


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/traces/before.jsonl",
        "/api/episodes/../../secret.txt",
        "/api/episodes/-1",
        "/api/episodes/2",
        "/api/episodes/1e3",
        "/api/episodes/99999999999999999999",
        "/api/episodes?since=x",
        "/api/episodes?since=",
        "/api",
        "/viewer.js/../../secret.txt",
        "/static/viewer.js",
        "http://evil.example/secret.txt",
        "/[",
    ],
)
def test_no_address_reaches_a_file_or_another_episode(server: ViewerServer, path: str) -> None:
    status, _, text = ask(server, path)
    assert status in (400, 404) or (status == 200 and path.endswith("since="))
    assert "secret" not in text.replace("secret.txt", "")


def test_what_a_growing_run_adds_comes_alone(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "before.jsonl"
    write(path, "a")
    collection = Collection(tmp_path)
    first = json.loads(collection.changes(0))
    assert len(first["rows"]) == 1
    write(path, "b")
    write(tmp_path / "traces" / "train" / "step-000001.jsonl", "c")
    collection._read_at = 0.0
    fresh = json.loads(collection.changes(first["revision"]))
    assert sorted(fresh["names"][row[4]] for row in fresh["rows"]) == ["b", "c"]
    assert json.loads(collection.changes(fresh["revision"]))["rows"] == []
    assert json.loads(collection.episode(0))["task"]["id"] == "a"


def test_many_readers_at_once_get_whole_answers(server: ViewerServer) -> None:
    wrong: list[Any] = []

    def read(number: int) -> None:
        for _ in range(10):
            status, _, text = ask(server, f"/api/episodes/{number}")
            if status != 200 or json.loads(text)["number"] != number:
                wrong.append(text)

    threads = [threading.Thread(target=read, args=(number,)) for number in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_taken_or_impossible_port_is_refused_with_a_remedy(server: ViewerServer) -> None:
    for port in (server.server_port, 70_000):
        with pytest.raises(OptionError, match=f"--port {port} cannot be used.*0 takes any free one"):
            ViewerServer(server.collection, port)


def test_a_path_without_traces_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no traces"):
        open_collection(tmp_path)
    with pytest.raises(DataError, match=r"cannot be read.*give a trace file"):
        open_collection(tmp_path / "nothing.jsonl")


def test_a_trace_that_is_removed_meanwhile_is_an_answer(server: ViewerServer, tmp_path: Path) -> None:
    for path in tmp_path.rglob("*.jsonl"):
        path.unlink()
    status, _, body = ask(server, "/api/episodes?since=0")
    assert status in (200, 500)
    assert json.loads(body)
