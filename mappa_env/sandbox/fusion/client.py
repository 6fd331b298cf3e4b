"""An HTTP client for SandboxFusion: bounded replies, and a clear message for every failure.

Messages name the server without the credentials of its address. They never quote messages of ``requests``,
which may contain them.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Mapping
from typing import Any, Literal, NoReturn
from urllib.parse import unquote, urlsplit

import pydantic
import requests
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError, ReadTimeoutError

from mappa_env.errors import OptionError, SandboxError
from mappa_env.sandbox.fusion.causes import cause_of

CONNECT_S, PING_S = 10.0, 20.0
RETRY_S = (0.2, 1.0, 4.0)
"""Seconds to wait before each retry of a refused request; see ``Client.run_code``."""
_BUSY = (429, 503)
_MOST_TEXT = 400
"""Characters of a server's answer that a message quotes at most."""


class ServerError(SandboxError):
    """The server failed; the message says why."""


class _Refused(Exception):
    """The server refused the request, so nothing has run."""


class RunResult(pydantic.BaseModel):
    """The server's report on the wrapper's process."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class Reply(pydantic.BaseModel):
    """The parts of the server's answer that we use."""

    status: str
    message: str = ""
    run_result: RunResult | None = None
    files: dict[str, str] = {}

    def file(self, name: str) -> bytes | None:
        """The content of a fetched file; None if it does not exist. Raises ServerError if it is damaged."""
        if name not in self.files:
            return None
        try:
            return base64.b64decode(self.files[name], validate=True)
        except binascii.Error:
            raise ServerError(f"the server's {name} is damaged: not valid base64") from None


class Client:
    """A client of one server. Thread-safe.

    Every request uses its own connection: if a reused connection broke, we could not tell whether its
    request has run.
    """

    def __init__(self, url: str) -> None:
        """Raises OptionError for an invalid address."""
        try:
            parsed = urlsplit(url)
            port = f":{parsed.port}" if parsed.port else ""
        except ValueError:
            raise OptionError("sandbox='fusion:<url>': the address is not a valid URL.") from None
        host = f"[{parsed.hostname}]" if ":" in (parsed.hostname or "") else parsed.hostname
        self.url = f"{parsed.scheme}://{host}{port}{parsed.path.rstrip('/')}"
        if parsed.scheme not in ("http", "https") or not host or parsed.query or parsed.fragment:
            raise OptionError(
                f"sandbox='fusion:<url>': {self.url!r} is not a plain http(s) address; "
                "use one such as 'fusion:http://localhost:8080'."
            )
        user, password = unquote(parsed.username or ""), unquote(parsed.password or "")
        self._auth = (user, password) if user or password else None

    def ping(self) -> None:
        """Raises ServerError unless a SandboxFusion server answers at the address."""
        try:
            answer = self._ask("GET", "/v1/ping", None, PING_S, 2**16)
        except ServerError as error:
            raise ServerError(
                f"{error}. Is a SandboxFusion server running there? See docs/fusion.md."
            ) from None
        if answer != "pong":
            raise ServerError(
                f"{self.url} answers GET /v1/ping with {_short(answer)} instead of 'pong': it is not a "
                "SandboxFusion server."
            )

    def run_code(self, body: Mapping[str, Any], timeout_s: float, most: int) -> Reply:
        """POST ``/run_code``; accepts at most ``most`` bytes of reply within ``timeout_s`` seconds.

        Retries only if the server cannot have run anything: no connection was made, or it answered 429 or
        503. An unanswered request may have run, or may still be running. A second one would double the load
        of a slow server, and the code may have had effects outside its workspace. Raises ServerError.
        """
        answer = self._ask("POST", "/run_code", json.dumps(body).encode(), timeout_s, most)
        try:
            reply = Reply.model_validate(answer)
        except pydantic.ValidationError:
            raise ServerError(f"{self.url}: not a SandboxFusion answer: {_short(answer)}") from None
        reply.message = cause_of(reply.message, body["code"]) if reply.message else ""
        return reply

    def _ask(self, method: str, path: str, payload: bytes | None, timeout_s: float, most: int) -> Any:
        """The content of an answer with status 200, parsed if it is JSON. Raises ServerError."""
        for wait in (*RETRY_S, None):
            try:
                code, content = self._exchange(method, path, payload, timeout_s, most)
                if code in _BUSY:
                    raise _Refused(f"too busy (HTTP {code})")
                break
            except _Refused as error:
                if wait is None:
                    tries = len(RETRY_S) + 1
                    raise ServerError(f"{self.url}: {error}, {tries} times") from None
                time.sleep(wait)
        try:
            answer = json.loads(content)
        except ValueError:
            answer = content.decode("utf-8", "replace")
        if code == 422:
            raise ServerError(f"{self.url}: the server refused the request (HTTP 422): {_detail(answer)}")
        if code != 200:
            raise ServerError(f"{self.url}: HTTP {code}: {_detail(answer)}")
        return answer

    def _exchange(
        self, method: str, path: str, payload: bytes | None, timeout_s: float, most: int
    ) -> tuple[int, bytes]:
        """Status and content. Raises ServerError, or _Refused if nothing can have run."""
        deadline = time.monotonic() + timeout_s
        try:
            with requests.request(
                method,
                self.url + path,
                data=payload,
                auth=self._auth,
                timeout=(CONNECT_S, timeout_s),
                stream=True,
                allow_redirects=False,
                headers={
                    "Content-Type": "application/json",
                    "Accept-Encoding": "identity",
                    "Connection": "close",
                },
            ) as response:
                content = bytearray()
                for chunk in response.iter_content(2**20):
                    content += chunk
                    if len(content) > most:
                        raise ServerError(f"{self.url}: the answer is larger than {most} bytes")
                    if time.monotonic() > deadline:
                        raise requests.ReadTimeout
                return response.status_code, bytes(content)
        except requests.RequestException as error:
            self._explain(error, timeout_s)

    def _explain(self, error: requests.RequestException, timeout_s: float) -> NoReturn:
        """Raise our own error for an error of ``requests``, without quoting its text."""
        cause = error.args[0] if error.args else None
        reason = cause.reason if isinstance(cause, MaxRetryError) else cause
        if isinstance(reason, NewConnectionError):
            raise _Refused("no connection (refused, or no such host)") from None
        if isinstance(reason, ConnectTimeoutError):
            raise _Refused(f"no connection within {CONNECT_S:g} s") from None
        if isinstance(error, requests.ReadTimeout) or isinstance(reason, ReadTimeoutError):
            raise ServerError(
                f"{self.url}: no complete answer within {timeout_s:g} s: the server stalls"
            ) from None
        if isinstance(error, requests.exceptions.SSLError):
            raise ServerError(f"{self.url}: the server's certificate is not accepted") from None
        kind = type(error).__name__
        raise ServerError(
            f"{self.url}: the connection broke before the answer was complete ({kind})"
        ) from None


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "..."


def _detail(answer: Any) -> str:
    """The reason in an answer that is not 200: without the input that 422 echoes, or the traceback of 500."""
    detail = answer.get("detail") if isinstance(answer, dict) else None
    if isinstance(detail, str) and detail:
        return _short(detail)
    if not isinstance(detail, list) or not all(isinstance(error, dict) for error in detail):
        return _short(answer)
    return _short("; ".join(f"{error.get('loc')}: {error.get('msg')}" for error in detail))
