"""The fusion backend against a FAKE server (``fake_fusion``), which runs the code but isolates nothing.

If MAPPA_FUSION_URL names a real server, some tests use that too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from fake_fusion import CUT, FakeFusion
from mappa_env.errors import OptionError, SandboxError
from mappa_env.sandbox import Limits, Result, make_sandbox
from mappa_env.sandbox.fusion import client as fusion_client
from mappa_env.sandbox.fusion import request
from mappa_env.sandbox.fusion import sandbox as fusion
from mappa_env.workspace.workspace import Workspace
from sandbox_story import STORY, tell

SMALL = Limits(wall_s=60, memory_mb=1024, disk_mb=8, output_cap_mb=1)
Run = Callable[..., Result]
Edit = Callable[[dict[str, Any]], object]


# -- the same as on this machine --------------------------------------------------------------------------


def test_the_same_story_as_in_a_process(server: FakeFusion) -> None:
    there, here = (tell(make_sandbox(name)) for name in ("fusion:" + server.url, "process"))
    for code, theirs, ours in zip(STORY, there, here, strict=True):
        assert theirs == ours, code


def test_code_that_removes_everything(run: Run, workspace: Workspace) -> None:
    workspace.put("a", b"1")
    result = run("import shutil, os\nshutil.rmtree(os.path.dirname(os.getcwd()))")
    assert (result.status, [(change.path, change.op) for change in result.files]) == (
        "ok",
        [("a", "deleted")],
    )


def test_what_a_result_says(run: Run, workspace: Workspace) -> None:
    workspace.put("in.csv", b"1,2")
    result = run("import os, sys\nprint(open('in.csv').read())\nprint(os.environ, file=sys.stderr)")
    assert (result.status, result.exit_code, result.stdout) == ("ok", 0, "1,2\n")
    assert (result.isolation, result.trust, result.truncated) == ("fusion", "sandbox", 0)
    assert "PYTEST" not in result.stderr  # the server's environment does not reach the code
    assert 0 < result.cpu_s < result.wall_s + 1
    assert result.peak_rss > 4 << 20


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("x = ' ' * (4 << 30)", "memory"),
        ("open('x', 'wb').write(bytes(9 << 20))", "disk_limit"),
        ("for i in range(3): open(str(i), 'wb').write(bytes(4 << 20))", "disk_limit"),
        ("while True: print('x' * 1000)", "output_limit"),
        ("import os\nos.abort()", "killed"),
        ("while True: pass", "timeout"),
    ],
)
def test_limits_have_names(run: Run, code: str, status: str) -> None:
    limits = Limits(cpu_s=1 if "pass" in code else 60, wall_s=120, disk_mb=8, output_cap_mb=1)
    result = run("open('f', 'w').close()\n" + code, limits)
    assert result.status == status, result
    assert "f" in [change.path for change in result.files]


def test_what_cannot_travel_is_named(run: Run) -> None:
    code = "import os\nos.symlink('/etc/passwd', 'l\\n')\nos.mkfifo('f')\nopen('x', 'w').truncate(9 << 20)"
    result = run(code, Limits(disk_mb=1000))
    assert result.status == "ok"
    assert [change.path for change in result.files] == ["x"]
    assert "[not carried back from the server: fifo f, link l\\x0a]" in result.stderr
    changed = "import os\nos.utime('x')\nfor name in 'yz': open(name, 'w').truncate(600_000)"
    result = run(changed, Limits(disk_mb=1))  # it occupies no disk, but all of it would be sent
    assert [(change.path, change.op) for change in result.files] == [("x", "deleted"), ("y", "created")]
    assert "[not carried back from the server: too large x, too large z]" in result.stderr


# -- what the server does to output -----------------------------------------------------------------------

FLOOD = "print('A' + 'x' * 300_000 + 'Z')"


def test_the_fake_cuts_and_garbles_as_the_real_server_does(server: FakeFusion) -> None:
    def ask(code: str, **more: Any) -> dict[str, Any]:
        body = {"code": code, "language": "python", "run_timeout": 60, **more}
        answer = requests.post(server.url + "/run_code", json=body, timeout=60)
        answer.raise_for_status()
        return dict(answer.json())

    cut = ask(FLOOD)
    assert (cut["status"], len(cut["run_result"]["stdout"])) == ("Success", CUT)
    garbled = ask("import sys\nsys.stdout.buffer.write(b'fine' * 9 + b'\\xff')")
    assert garbled["run_result"]["stdout"].startswith("[DecodeError]")
    names = ["link", "/etc/passwd", "../" * 30 + "etc/passwd", "missing"]
    fetched = ask("import os\nos.symlink('/etc/passwd', 'link')", fetch_files=names)
    assert sorted(fetched["files"]) == sorted(name for name in names if name != "missing")
    with pytest.raises(requests.HTTPError, match="422"):
        ask("pass", files=[])


def test_output_is_whole_or_counted(run: Run) -> None:
    result = run(FLOOD, Limits(output_kb=512))
    assert (result.stdout, result.truncated) == ("A" + "x" * 300_000 + "Z\n", 0)
    result = run(FLOOD, Limits(output_kb=2))
    assert (result.status, result.truncated) == ("ok", 300_003 - 2048)
    assert f"[... {result.truncated} bytes dropped ...]" in result.stdout
    assert run("import sys\nsys.stdout.buffer.write(b'\\xffok')").stdout == "\ufffdok"


# -- failures of the server -------------------------------------------------------------------------------


def test_a_server_that_stalls_is_given_up(run: Run, server: FakeFusion, monkeypatch: Any) -> None:
    assert run().status == "ok"
    monkeypatch.setattr(request, "MARGIN_S", 1.0)
    monkeypatch.setattr(fusion, "PATIENCE_S", 1.0)
    server.stall = True
    result = run(limits=Limits(wall_s=1))
    assert (result.status, len(server.bodies)) == ("unavailable", 2)
    assert "no complete answer within 3 s: the server stalls" in result.stderr


def test_only_refusals_are_repeated(run: Run, server: FakeFusion, monkeypatch: Any) -> None:
    monkeypatch.setattr(fusion_client, "RETRY_S", (0.0, 0.0, 0.0))
    server.refuse = [503, 429, 503]
    assert run().stdout == "1\n"
    assert len(server.bodies) == 4
    server.refuse = [503] * 9
    assert "too busy (HTTP 503), 4 times" in run().stderr
    server.refuse = []
    for attribute, reason in (("broken", "HTTP 500"), ("hangs_up", "the connection broke")):
        server.bodies.clear()
        setattr(server, attribute, True)
        result = run("open('f', 'w').close()")
        setattr(server, attribute, False)
        assert (result.status, result.files, len(server.bodies)) == ("unavailable", (), 1)
        assert reason in result.stderr
    assert run("import os\nprint(os.listdir())").stdout == "[]\n"  # none of it reached the workspace


def test_a_server_that_is_not_there(workspace: Workspace, server: FakeFusion, monkeypatch: Any) -> None:
    monkeypatch.setattr(fusion_client, "RETRY_S", (0.0,))
    with socket.socket() as held:  # bound, not listening: refuses connections, keeps the port
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        result = make_sandbox("fusion:" + url).run(workspace, "", SMALL)
    assert result.status == "unavailable"
    assert f"{url}: no connection (refused, or no such host), 2 times. Is a SandboxFusion" in result.stderr
    with pytest.raises(SandboxError, match=r"HTTP 404.*docs/fusion.md"):
        fusion.FusionSandbox(server.url + "/elsewhere").check()


def test_a_request_that_the_server_refuses(run: Run, server: FakeFusion, monkeypatch: Any) -> None:
    monkeypatch.setattr(request, "source", lambda name: None)
    result = run("print('secret code')")
    assert result.status == "unavailable"
    assert "HTTP 422" in result.stderr
    assert "['body', 'code']: is wrong" in result.stderr
    assert "secret" not in result.stderr


def test_an_answer_without_end_is_not_read(run: Run, monkeypatch: Any) -> None:
    monkeypatch.setattr(fusion, "_SPARE_BYTES", 0)
    assert "the answer is larger than 0 bytes" in run(limits=Limits(disk_mb=0)).stderr


def fetched(answer: dict[str, Any], ending: str) -> str:
    """The name of the report (".json") or the archive (".tar"), which is new for every action."""
    return next(name for name in answer["files"] if name.endswith(ending))


def files(ending: str, content: bytes | None) -> Edit:
    def edit(answer: dict[str, Any]) -> None:
        name = fetched(answer, ending)
        del answer["files"][name]
        if content is not None:
            answer["files"][name] = base64.b64encode(content).decode()

    return edit


def cut(ending: str) -> Edit:
    return lambda answer: files(ending, base64.b64decode(answer["files"][fetched(answer, ending)])[:-40])(
        answer
    )


def hostile(answer: dict[str, Any]) -> None:
    """An archive with a bad name and a report that confirms it."""
    archive = base64.b64decode(answer["files"][fetched(answer, ".tar")]).replace(b"f\0\0", b"../", 1)
    archive = archive.replace(b"%06o" % sum(b"f"), b"%06o" % sum(b"../"))
    report = json.loads(base64.b64decode(answer["files"][fetched(answer, ".json")]))
    report["tar_sha256"] = hashlib.sha256(archive).hexdigest()
    files(".tar", archive)(answer)
    files(".json", json.dumps(report).encode())(answer)


FAILED = {"status": "SandboxError", "message": "no cgroup", "run_result": None, "files": {}}


@pytest.mark.parametrize(
    ("edit", "status", "reason"),
    [
        (files(".json", None), "killed", "ended without a report"),
        (files(".tar", None), "unavailable", "the server truncated the archive: 0 of 10240 bytes"),
        (cut(".tar"), "unavailable", "the server truncated the archive: 10200 of 10240 bytes"),
        (cut(".json"), "unavailable", "the server truncated the report"),
        (files(".json", b'{"nonce": "x", "status": "ok"}'), "killed", "not written by the wrapper"),
        (files(".json", b"{}"), "killed", "not written by the wrapper"),
        (files(".tar", bytes(10240)), "killed", "the archive is not the one"),
        (hostile, "killed", "refused"),
        (
            lambda answer: answer["files"].update({fetched(answer, ".json"): "?"}),
            "unavailable",
            "is damaged: not valid base64",
        ),
        (lambda answer: answer.pop("status"), "unavailable", "not a SandboxFusion answer"),
        (lambda answer: answer.update(FAILED), "unavailable", "the server failed: no cgroup"),
    ],
)
def test_answers_that_are_not_whole(
    run: Run, server: FakeFusion, workspace: Workspace, edit: Edit, status: str, reason: str
) -> None:
    workspace.put("kept", b"1")
    server.edit = edit
    result = run("open('f', 'w').write('x')\nimport os\nos.unlink('kept')")
    assert (result.status, result.files) == (status, ())
    assert reason in result.stderr
    assert (result.isolation, result.trust) == ("fusion", "sandbox")
    assert list(workspace.scan().entries) == ["kept"]


def test_time_limits_of_the_server(run: Run, server: FakeFusion) -> None:
    server.late = True
    result = run("import time; time.sleep(60)")
    assert (result.status, result.exit_code) == ("timeout", None)
    server.late, server.never_starts = False, True
    result = run()
    assert result.status == "unavailable"
    assert "the server did not start the action" in result.stderr


# -- many at once, and names ------------------------------------------------------------------------------


def test_concurrency_is_bounded_and_the_wait_is_reported(server: FakeFusion) -> None:
    sandbox = make_sandbox({"name": "fusion", "url": server.url, "concurrency": 2})

    def one(i: int) -> Result:
        with sandbox.open_workspace() as workspace:
            return sandbox.run(workspace, f"print({i})", SMALL)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(one, range(6)))
    assert [result.stdout for result in results] == [f"{i}\n" for i in range(6)]
    assert server.most_at_once <= 2
    assert sum(result.queued_s > 0.01 for result in results) >= 1


def test_credentials_are_used_and_never_shown(server: FakeFusion, workspace: Workspace) -> None:
    url = server.url.replace("http://", "http://someone:hush%21@")
    sandbox = make_sandbox("fusion:" + url)
    assert sandbox.run(workspace, "", SMALL).status == "ok"
    assert set(server.authorization) == {"Basic " + base64.b64encode(b"someone:hush!").decode()}
    server.broken = True
    seen = repr(sandbox.run(workspace, "", SMALL)) + repr(sandbox) + json.dumps(server.bodies)
    assert "hush" not in seen
    assert "someone" not in seen


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://u:hush@host", "http://u:hush@host/?q", "http://h:x"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(OptionError, match="fusion:<url>") as caught:
        make_sandbox("fusion:" + url)
    assert "hush" not in str(caught.value)
    with pytest.raises(OptionError, match="concurrency"):
        make_sandbox({"name": "fusion", "url": "http://localhost", "concurrency": 0})
