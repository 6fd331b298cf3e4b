"""SandboxFusion over HTTP: one request, its reply within bounds, and every failure in words.

Messages name the server without the credentials of its address, and never quote ``requests``, which may.
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

CONNECT_S, PING_S = 10.0, 20.0
RETRY_S = (0.2, 1.0, 4.0)
"""Waits before asking again; only after a refusal, see ``Client.run_code``."""
_BUSY = (429, 503)
_MOST_TEXT = 400
"""Characters of a server's words that a message quotes."""


class ServerError(SandboxError):
    """The server could not do its part; the message says why."""


class _Refused(Exception):
    """The server did not take the request: nothing of it has run."""


class RunResult(pydantic.BaseModel):
    """What the server says of the wrapper's process."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class Reply(pydantic.BaseModel):
    """The parts of the server's answer that are used."""

    status: str
    message: str = ""
    run_result: RunResult | None = None
    files: dict[str, str] = {}

    def file(self, name: str) -> bytes | None:
        """A fetched file; None when the server left it out, as it does where there is none."""
        if name not in self.files:
            return None
        try:
            return base64.b64decode(self.files[name], validate=True)
        except binascii.Error:
            raise ServerError(f"the server's {name} arrived damaged: it is no base64") from None


class Client:
    """One server. Every request has its own connection: a kept one may die unseen, and nobody could tell
    whether the request that met its end has run. Safe to use from many threads."""

    def __init__(self, url: str) -> None:
        """Raises OptionError for an address that is none."""
        try:
            parsed = urlsplit(url)
            port = f":{parsed.port}" if parsed.port else ""
        except ValueError:
            raise OptionError("sandbox='fusion:<url>': the address cannot be read.") from None
        host = f"[{parsed.hostname}]" if ":" in (parsed.hostname or "") else parsed.hostname
        self.url = f"{parsed.scheme}://{host}{port}{parsed.path.rstrip('/')}"
        if parsed.scheme not in ("http", "https") or not host or parsed.query or parsed.fragment:
            raise OptionError(
                f"sandbox='fusion:<url>': {self.url!r} is no plain http(s) address; "
                "an example: 'fusion:http://localhost:8080'."
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
                f"{self.url} answers GET /v1/ping with {_short(answer)} instead of 'pong': it is no "
                "SandboxFusion server."
            )

    def run_code(self, body: Mapping[str, Any], timeout_s: float, most: int) -> Reply:
        """POST ``/run_code``; at most ``most`` bytes of reply within ``timeout_s``. Raises ServerError.

        Asked again only when the server cannot have run anything: no connection came about, or it answered
        429 or 503. A request that went out and was not answered may have run, or run still: a second one
        would double the load of a server that is slow already, and the code may have had effects outside of
        its workspace. So it is not repeated, although our side of the workspace is still untouched.
        """
        answer = self._ask("POST", "/run_code", json.dumps(body).encode(), timeout_s, most)
        try:
            return Reply.model_validate(answer)
        except pydantic.ValidationError:
            raise ServerError(f"{self.url}: this is no SandboxFusion answer: {_short(answer)}") from None

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
            raise ServerError(f"{self.url}: HTTP {code}: {_short(answer)}")
        return answer

    def _exchange(
        self, method: str, path: str, payload: bytes | None, timeout_s: float, most: int
    ) -> tuple[int, bytes]:
        """Status and content. Raises ServerError, or _Refused if nothing can have run."""
        deadline = time.monotonic() + timeout_s
        try:
            with requests.request(
                method, self.url + path, data=payload, auth=self._auth, timeout=(CONNECT_S, timeout_s),
                stream=True, allow_redirects=False,
                headers={
                    "Content-Type": "application/json", "Accept-Encoding": "identity", "Connection": "close"
                },
            ) as response:  # fmt: skip
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
        """Turn an error of ``requests`` into ours, without its text."""
        cause = error.args[0] if error.args else None
        reason = cause.reason if isinstance(cause, MaxRetryError) else cause
        if isinstance(reason, NewConnectionError):
            raise _Refused("no connection (refused, or no such host)") from None
        if isinstance(reason, ConnectTimeoutError):
            raise _Refused(f"no connection within {CONNECT_S:g} s") from None
        if isinstance(error, requests.ReadTimeout) or isinstance(reason, ReadTimeoutError):
            raise ServerError(
                f"{self.url}: no whole answer within {timeout_s:g} s: the server stalls"
            ) from None
        if isinstance(error, requests.exceptions.SSLError):
            raise ServerError(f"{self.url}: the server's certificate is not accepted") from None
        kind = type(error).__name__
        raise ServerError(f"{self.url}: the connection broke before the answer was whole ({kind})") from None


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "..."


def _detail(answer: Any) -> str:
    """Where and why of a 422, without the input that it echoes."""
    errors = answer.get("detail") if isinstance(answer, dict) else None
    if not isinstance(errors, list) or not all(isinstance(error, dict) for error in errors):
        return _short(answer)
    return _short("; ".join(f"{error.get('loc')}: {error.get('msg')}" for error in errors))
