"""Shared by both kinds of server: which HTTP errors are temporary, how long to wait, and hiding keys."""

from __future__ import annotations

import email.utils
import math
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mappa_env.coach.llm.wire import REFUSED, TOO_LONG, Late, Passing, Rejected, Unreachable
from mappa_env.errors import CoachStopped

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
MAX_REPLY_BYTES = 4 << 20
MAX_WAIT_S = 3600.0
_CONNECTING = frozenset({"NewConnectionError", "ConnectTimeoutError", "ConnectError", "ConnectTimeout"})
"""The HTTP libraries' errors while there is no connection yet."""
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
"""OpenSSL's reasons where a server speaks HTTP on a port that was asked for HTTPS."""
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")
_SHOWN = 300
_MASK = "***"
"""In what servers leave of a key that they quote: ``sk-ab***yz``."""
_REJECTED = frozenset({400, 413, 422})
"""What a server may answer to one request of many."""
_LONG = re.compile(
    r"context[ _-]?(length|window|size)|(prompt|input|request|messages?|conversation)\b.{0,40}\btoo long"
    r"|(too many|maximum (number of|input|prompt)) tokens|(input|prompt) tokens? .{0,30}exceed"
    r"|token count .{0,40}exceed|longer than the (maximum )?(model|context)|max_model_len"
    r"|max_new_tokens.{0,9} must be <="
    r"|(input|prompt) length .{0,40}exceed|reduce the length of the (messages|prompt|input)",
    re.IGNORECASE | re.DOTALL,
)
"""How OpenAI, vLLM, SGLang, llama.cpp, Gemini and others say that a prompt does not fit."""
_FILTERS = frozenset({"content_filter", "invalid_prompt"})
"""Codes of filters that stop a prompt: Azure's and OpenAI's."""
_WRONG_KEY = "API_KEY_INVALID"
"""Gemini's reason in an answer 400 to a wrong key."""


def failure(
    status: int, body: Any, headers: Mapping[str, str], where: str, secret: str, source: str
) -> Passing | CoachStopped:
    """Classify an HTTP error as temporary or permanent. ``body``: its JSON, or its text.

    ``source``: where ``secret`` comes from, for instance the name of a variable.

    Gemini does not bill errors (ai.google.dev/gemini-api/docs/billing); other servers are assumed not to.
    """
    text = f'{where} answered {status} "{hidden(_message(body), secret)}"'
    if status in PASSING or status >= 500:
        return Passing(text, asked_to_wait(body, headers), billed=False)
    wrong_key = f"the key is missing or wrong; check {source}."
    remedy = {
        400: "the model does not accept this request; check the model's name and its options.",
        401: wrong_key,
        403: f"the key may not use this model; check {source}.",
        404: "the model or the address does not exist; check its name and its URL.",
    }.get(status, "a retry would not help.")
    return CoachStopped(f"{text}: {wrong_key if _WRONG_KEY in str(body) else remedy}")


def rejected(status: int, body: Any, where: str, secret: str) -> Rejected | None:
    """What an HTTP error means if it may concern one request alone, else None."""
    if status not in _REJECTED or _WRONG_KEY in str(body):
        return None
    error = body.get("error", body) if isinstance(body, dict) else body
    named = [error.get(key) for key in ("code", "type")] if isinstance(error, dict) else []
    words = _message(body)
    kind = ""
    if any(isinstance(name, str) and name in _FILTERS for name in named):
        kind = REFUSED
    elif _LONG.search(" ".join([words, *(name for name in named if isinstance(name, str))])):
        kind = TOO_LONG
    return Rejected(f'{where} answered {status} "{hidden(words, secret)}"', kind)


def disconnected(error: Exception, where: str, secret: str) -> Passing:
    """What a broken connection comes down to, without the HTTP library's words around it."""
    chain = list(_chain(error))
    cause = next((each for each in chain if _is_plain(each)), error)
    if isinstance(cause, ConnectionRefusedError):
        return Unreachable(f"{where}: connection refused")
    if isinstance(cause, socket.gaierror):
        return Unreachable(f"{where}: unknown host ({cause.strerror})")
    if isinstance(cause, ssl.SSLCertVerificationError) or getattr(cause, "reason", None) in _NO_TLS:
        return Unreachable(f"{where}: no secure connection ({hidden(str(cause), secret)})")
    if any(type(each).__name__ in _CONNECTING for each in chain):
        why = "in time" if isinstance(cause, TimeoutError) else f"({hidden(str(cause), secret)})"
        return Unreachable(f"{where}: no connection {why}")
    if isinstance(cause, TimeoutError):
        return Late(f"{where}: no answer in time")
    return Passing(f"{where}: {type(cause).__name__}: {hidden(str(cause), secret)}")


def asked_to_wait(body: Any, headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait (RetryInfo, Retry-After, Retry-After-Ms); None: not specified."""
    found = []
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith("RetryInfo"):
            match = _DELAY.fullmatch(str(detail.get("retryDelay", "")))
            found += [float(match[1])] if match else []
    lower = {name.lower(): value for name, value in headers.items()}
    found += _number(lower.get("retry-after-ms", ""), 0.001)
    after = lower.get("retry-after", "")
    found += _number(after, 1.0) or _date(after)
    return min(max(found), MAX_WAIT_S) if found else None


def hidden(text: str, secret: str) -> str:
    """``text`` on one line, shortened, without ``secret``."""
    if len(secret) >= 4:
        text = text.replace(secret, "[key]")
        text = " ".join("[key]" if _MASK in word else word for word in text.split())
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."


def _message(body: Any) -> str:
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error`` and what it was raised from, the outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_plain(error: BaseException) -> bool:
    """Whether it is the system's own: the errors of ``requests`` are OSErrors too, without a number."""
    return isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno is not None)


def _number(text: str, unit: float) -> list[float]:
    try:
        value = float(text) * unit
    except ValueError:
        return []
    return [max(value, 0.0)] if math.isfinite(value) else []


def _date(text: str) -> list[float]:
    try:
        return [max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)]
    except (ValueError, TypeError, OverflowError):
        return []
