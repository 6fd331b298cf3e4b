"""A FAKE SandboxFusion server: the protocol and its measured behaviour, on loopback, without isolation.

It really runs the code, in a subprocess in a temporary directory, and answers as the real server does with
``isolation: none``: stdout cut without a word, bytes that are not UTF-8 replaced as a whole, absolute, ``..``
and link paths followed when fetching, files that are not there left out, HTTP 200 for whatever the code does.
What a real server does only under load or when broken is switched on by the attributes of ``FakeFusion``.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CUT = 219_264
"""Bytes of stdout that arrived of 300 000, as measured on a real server."""
Answer = dict[str, Any]


class FakeFusion:
    """``with FakeFusion() as server``: a fake server at ``server.url``.

    ``python`` runs the code, as user ``set_uid`` if given, which only root can do. The switches:

    ``refuse``: statuses to answer ``/run_code`` with, one per request, before any runs.
    ``broken``: every ``/run_code`` gets HTTP 500.
    ``stall``: an answer comes only when the fake is closed.
    ``hangs_up``: the code runs, and the connection is closed without an answer.
    ``late``: the code is killed as soon as it has printed a line; TimeLimitExceeded is the answer.
    ``never_starts``: TimeLimitExceeded without having run anything.
    ``deaf``: whatever the code prints is lost.
    ``edit``: changes the finished answer.
    """

    def __init__(self, python: str = sys.executable, set_uid: int | None = None) -> None:
        self._python, self._uid = python, set_uid
        self.refuse: list[int] = []
        self.broken = self.stall = self.hangs_up = self.late = self.never_starts = self.deaf = False
        self.edit: Callable[[Answer], None] = lambda answer: None
        self.bodies: list[Mapping[str, Any]] = []
        self.authorization: list[str | None] = []
        self.most_at_once = 0
        self.closing = threading.Event()
        self._now = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeFusion:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and JSON for a body of ``/run_code``."""
        self.bodies.append(body)
        if self.refuse:
            return self.refuse.pop(0), {"detail": "too many requests"}
        if problem := _unprocessable(body):
            return 422, {"detail": [{"loc": ["body", problem], "msg": "is wrong", "input": body}]}
        if self.broken:
            return 500, "Internal Server Error"
        if self.stall:
            self.closing.wait()
            return 500, "Internal Server Error"
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            answer = self._run(body)
        except OSError as error:  # the real one formats None, which its traceback printer returns
            message = f"exception on running code {body['code']}: {error} None"
            answer = {"status": "SandboxError", "message": message, "run_result": None, "files": {}}
        finally:
            with self._lock:
                self._now -= 1
        self.edit(answer)
        return 200, answer

    def _run(self, body: Mapping[str, Any]) -> Answer:
        with tempfile.TemporaryDirectory(prefix="fake-fusion-", ignore_cleanup_errors=True) as folder:
            script = lay(folder, body)
            result = self._command([self._python, script], folder, body)
            return {
                "status": {"Error": "SandboxError", "TimeLimitExceeded": "Failed"}.get(
                    result["status"], "Failed" if result["return_code"] else "Success"
                ),
                "message": "",
                "compile_result": None,
                "run_result": result,
                "executor_pod_name": None,
                "files": _fetch(folder, body.get("fetch_files", [])),
            }

    def _command(self, command: list[str], folder: str, body: Mapping[str, Any]) -> Answer:
        late = {"status": "TimeLimitExceeded", "execution_time": body["run_timeout"], "return_code": None}
        if self.never_starts:
            return {**late, "stdout": "", "stderr": ""}
        if self._uid is not None:
            for above, folders, names in os.walk(folder):
                for name in (".", *folders, *names):
                    os.chmod(os.path.join(above, name), 0o777)
        process = subprocess.Popen(
            command,
            cwd=folder,
            user=self._uid,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        if self.late:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write((body.get("stdin") or "").encode())
            process.stdin.close()
            line = process.stdout.readline()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            return {**late, "stdout": line.decode(), "stderr": ""}
        try:
            out, err = process.communicate((body.get("stdin") or "").encode(), body["run_timeout"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return {**late, "stdout": _decoded(out), "stderr": _decoded(err)}
        return {
            "status": "Finished",
            "execution_time": 0.1,
            "return_code": process.returncode,
            "stdout": "" if self.deaf else _decoded(out[:CUT]),
            "stderr": _decoded(err[:CUT]),
        }


def lay(folder: str, body: Mapping[str, Any]) -> str:
    """Write the files of a request to ``folder``; return the path of its program."""
    for name, content in body.get("files", {}).items():
        if content is None or "IGNORE_THIS_FILE" in name:
            continue
        path = os.path.join(folder, name)  # absolute and ".." lead where they say, as on the real one
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(content))
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".py", delete=False) as script:
        script.write(body["code"])
    return script.name


def _unprocessable(body: Any) -> str:
    """The field that the real server's schema refuses; empty if there is none."""
    if not isinstance(body, dict):
        return "body"
    kinds = {"files": dict, "fetch_files": list, "run_timeout": int | float, "stdin": str | None}
    for name, kind in kinds.items():
        if name in body and not isinstance(body[name], kind):
            return name
    return next((name for name in ("code", "language") if not isinstance(body.get(name), str)), "")


def _fetch(folder: str, names: list[str]) -> dict[str, str]:
    found = {}
    for name in names:
        path = os.path.abspath(os.path.join(folder, name))
        if os.path.isfile(path):
            with open(path, "rb") as file:
                found[name] = base64.b64encode(file.read()).decode()
    return found


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return f"[DecodeError] {error}"


def _handler(fake: FakeFusion) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, "pong") if self.path == "/v1/ping" else self._answer(
                404, {"detail": "Not Found"}
            )

        def do_POST(self) -> None:
            fake.authorization.append(self.headers["Authorization"])
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            code, answer = fake.answer(body) if self.path == "/run_code" else (404, {"detail": "Not Found"})
            if not fake.hangs_up:
                self._answer(code, answer)

        def _answer(self, code: int, answer: Any) -> None:
            content = json.dumps(answer).encode()
            try:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # the client has given up, as some tests let it
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            return None

    return Handler
