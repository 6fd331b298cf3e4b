"""Fakes of Gemini's REST service and of an OpenAI-compatible server: real HTTP on loopback, scripted replies.

They speak the published wire formats and know nothing of the clients. What they answer by default is a valid
verdict: a quote that they find in the prompt, and a grade of their choosing.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GEMINI_PATHS = re.compile(
    r"/v1(?:beta1?)?/(?:projects/[^/]+/locations/[^/]+/)?(?:publishers/google/)?models/([^/:]+):generateContent"
)


@dataclass(frozen=True)
class Call:
    """One request as it came. ``text``: everything in the prompt; ``schema``: the one asked for."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    text: str
    schema: dict[str, Any] | None
    at: float


Say = Callable[["FakeServer", Call], "tuple[int, dict[str, str], bytes] | None"]
"""A scripted reaction; None: the connection was dealt with already."""


@dataclass
class FakeServer:
    """``script`` reactions are used up first, in order; then ``otherwise``. ``latency_s`` before each."""

    kind: str
    model_version: str = "fake-model-001"
    latency_s: float = 0.0
    otherwise: Say | None = None
    script: list[Say] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    grade: Callable[[Call, str], int] = lambda call, name: 3
    usage: tuple[int, int, int, int] = (1000, 400, 100, 50)
    """Prompt, cached, output, thoughts."""
    url: str = ""
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, call: Call) -> Say:
        with self.lock:
            self.calls.append(call)
            if self.script:
                return self.script.pop(0)
        return self.otherwise or ok


@contextmanager
def serving(kind: str, *, port: int = 0, **options: Any) -> Iterator[FakeServer]:
    """``kind``: ``gemini`` or ``openai``. ``port``: 0 for any that is free."""
    fake = FakeServer(kind, **options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        connection: socket.socket

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            call = _call(fake.kind, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            say = fake.take(call)
            with fake.lock:
                fake.in_flight += 1
                fake.most_in_flight = max(fake.most_in_flight, fake.in_flight)
            try:
                time.sleep(fake.latency_s)
                answer = say(fake, call)
            finally:
                with fake.lock:
                    fake.in_flight -= 1
            if answer is None:
                return
            status, headers, data = answer
            cut = headers.pop("x-cut", None)
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if cut:
                self.wfile.write(data[: int(cut)])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    connected: set[socket.socket] = set()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def process_request(self, request: Any, client_address: Any) -> None:
            connected.add(request)
            super().process_request(request, client_address)

        def shutdown_request(self, request: Any) -> None:
            connected.discard(request)
            super().shutdown_request(request)

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that gave up are part of the play."""

    with Server(("127.0.0.1", port), Handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_address[1]}" + ("/v1" if kind == "openai" else "")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            for each in list(connected):  # else a thread waits for the next request of each client
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _call(kind: str, path: str, headers: dict[str, str], body: dict[str, Any]) -> Call:
    if kind == "gemini":
        assert GEMINI_PATHS.fullmatch(path), path
        parts = [*body["systemInstruction"]["parts"], *(p for c in body["contents"] for p in c["parts"])]
        text = "\n".join(part["text"] for part in parts)
        schema = body["generationConfig"].get("responseJsonSchema")
    else:
        assert path == "/v1/chat/completions", path
        text = "\n".join(message["content"] for message in body["messages"])
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return Call(path, headers, body, text, schema, time.monotonic())


# -- answers ----------------------------------------------------------------------------------------------


def verdict(fake: FakeServer, call: Call, **changes: Any) -> dict[str, Any]:
    """What a model might say: every criterion of the schema (or of the system prompt) with a true quote."""
    quote = next(line.strip() for line in call.text.splitlines() if '"agent": ' in line)
    if call.schema is not None:
        names = list(call.schema["properties"]["criteria"]["properties"])
        more = {"corrected_action": None} if "corrected_action" in call.schema["properties"] else {}
    else:
        names, more = re.findall(r"^- ([a-z_]+): ", call.text, re.MULTILINE), {}
    criteria = {name: {"quote": quote, "grade": fake.grade(call, name)} for name in names}
    return {"criteria": criteria, "summary": "as one would expect", "blame": "nobody", **more, **changes}


def envelope(fake: FakeServer, text: str | None, **changes: Any) -> dict[str, Any]:
    """``text`` in the server's own form. ``finish``, ``version``, ``feedback``: to say something odd."""
    prompt, cached, output, thoughts = fake.usage
    version = changes.get("version", fake.model_version)
    if fake.kind == "gemini":
        content: dict[str, Any] = {"role": "model"}
        if text is not None:
            content["parts"] = [{"text": "let me see", "thought": True}, {"text": text}]
        return {
            "candidates": [{"content": content, "finishReason": changes.get("finish", "STOP"), "index": 0}],
            "usageMetadata": {
                "promptTokenCount": prompt,
                "cachedContentTokenCount": cached,
                "candidatesTokenCount": output,
                "thoughtsTokenCount": thoughts,
                "totalTokenCount": prompt + output + thoughts,
            },
            "modelVersion": version,
            "responseId": f"r{len(fake.calls)}",
        }
    message = {"role": "assistant", "content": text, "refusal": None, "reasoning": "let me see"}
    return {
        "id": f"chatcmpl-{len(fake.calls)}",
        "object": "chat.completion",
        "model": version,
        "choices": [{"index": 0, "message": message, "finish_reason": changes.get("finish", "stop")}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output + thoughts,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": thoughts},
        },
    }


def _json(value: Any, status: int = 200, **headers: str) -> tuple[int, dict[str, str], bytes]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return status, named, json.dumps(value).encode()


def ok(fake: FakeServer, call: Call) -> Any:
    return _json(envelope(fake, json.dumps(verdict(fake, call))))


def answering(**changes: Any) -> Say:
    """A verdict with some fields changed."""
    return lambda fake, call: _json(envelope(fake, json.dumps(verdict(fake, call, **changes))))


def saying(text: str) -> Say:
    """Any text in a whole envelope."""
    return lambda fake, call: _json(envelope(fake, text))


def rate_limited(seconds: float = 0.2) -> Say:
    def say(fake: FakeServer, call: Call) -> Any:
        if fake.kind == "gemini":
            details = [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"},
            ]
            error = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": details}
            return _json({"error": error}, 429)
        return _json({"error": {"message": "slow down"}}, 429, retry_after_ms=str(seconds * 1000))

    return say


def failing(status: int, message: str = "no") -> Say:
    return lambda fake, call: _json({"error": {"code": status, "message": message, "status": "X"}}, status)


def stalling(seconds: float) -> Say:
    def say(fake: FakeServer, call: Call) -> Any:
        time.sleep(seconds)
        return ok(fake, call)

    return say


def cut_off(fake: FakeServer, call: Call) -> Any:
    """The connection breaks in the midst of the body."""
    status, headers, data = ok(fake, call)
    return status, {**headers, "x-cut": str(len(data) // 2)}, data


def truncated(fake: FakeServer, call: Call) -> Any:
    """The body ends early, and the server believes that it is whole."""
    status, headers, data = ok(fake, call)
    return status, headers, data[: len(data) // 2]


def html(fake: FakeServer, call: Call) -> Any:
    return 200, {"Content-Type": "text/html"}, b"<html><body>Welcome to the hotel's network</body></html>"


def empty(fake: FakeServer, call: Call) -> Any:
    return _json({})


def blocked(fake: FakeServer, call: Call) -> Any:
    if fake.kind == "gemini":
        return _json(
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": fake.model_version}
        )
    return _json(envelope(fake, None, finish="content_filter"))


def refusing(fake: FakeServer, call: Call) -> Any:
    """The model itself declines: Gemini by a reason to finish, OpenAI by a message of its own."""
    if fake.kind == "gemini":
        return _json(envelope(fake, None, finish="SAFETY"))
    found = envelope(fake, None)
    found["choices"][0]["message"]["refusal"] = "I cannot judge this."
    return _json(found)


def out_of_tokens(fake: FakeServer, call: Call) -> Any:
    """All went into thinking: no parts at all."""
    return _json(envelope(fake, None, finish="MAX_TOKENS" if fake.kind == "gemini" else "length"))


def out_of_range(fake: FakeServer, call: Call) -> Any:
    found = verdict(fake, call)
    found["criteria"] = {name: {**row, "grade": 10} for name, row in found["criteria"].items()}
    return _json(envelope(fake, json.dumps(found)))


def as_another(version: str) -> Say:
    return lambda fake, call: _json(envelope(fake, json.dumps(verdict(fake, call)), version=version))
