"""What both kinds of server share: which HTTP errors pass, how long to wait, and keeping keys out."""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Any

from mappa_env.coach.llm.wire import Passing
from mappa_env.errors import CoachStopped

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
MAX_REPLY_BYTES = 4 << 20
MAX_WAIT_S = 3600.0
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")
_SHOWN = 300


def failure(
    status: int, body: Any, headers: Mapping[str, str], where: str, secret: str
) -> Passing | CoachStopped:
    """What an HTTP error means. ``body``: its JSON, or its text.

    Errors are not billed (ai.google.dev/gemini-api/docs/billing); other servers are taken to be no worse.
    """
    text = f"{where} answered {status}: {hidden(_message(body), secret)}"
    if status in PASSING or status >= 500:
        return Passing(text, asked_to_wait(body, headers), billed=False)
    remedy = {
        400: "the request is not one that this model takes; check the model's name and its options.",
        401: "the key is missing or wrong.",
        403: "the key may not use this model.",
        404: "there is no such model or address.",
    }.get(status, "asking again would not help.")
    return CoachStopped(f"{text} -- {remedy}")


def asked_to_wait(body: Any, headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks for (RetryInfo, Retry-After, Retry-After-Ms); None: it does not say."""
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
    text = " ".join(text.split())
    if len(secret) >= 4:
        text = text.replace(secret, "[key]")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."


def _message(body: Any) -> str:
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)


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
