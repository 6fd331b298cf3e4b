"""The chat completions of an OpenAI-compatible server: one call, its errors sorted, the key hidden."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from mappa_env.coach.llm.address import problem_of
from mappa_env.coach.llm.counts import usage_of
from mappa_env.coach.llm.http import MAX_REPLY_BYTES, disconnected, failure, rejected
from mappa_env.coach.llm.settings import Calls
from mappa_env.coach.llm.wire import Late, Passing, Rejected, Usage
from mappa_env.errors import CoachStopped, CoachWarning, OptionError

_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Answered:
    """An HTTP answer. ``body``: its JSON, else its text."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Completed:
    """What a completion says. ``thoughts``: the reasoning, if the server keeps it apart and shows it."""

    text: str
    thoughts: str
    finish: str
    refusal: str
    usage: Usage
    version: str
    number: str


class Completions:
    """The endpoint of the model ``name`` below ``base_url``, which has the form of OpenAI's clients.

    The key, if needed, comes only from the environment. Raises OptionError for another form of URL, and if
    ``key_variable`` is given but not set; quotes neither.
    """

    def __init__(self, name: str, base_url: str, settings: Calls) -> None:
        if why := problem_of(base_url):
            raise OptionError(f"'openai:{name}': base_url {why}.")
        self.where = f"openai:{name}@{base_url}"
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._key_variable = settings.key_variable
        self._key = os.environ.get(settings.key_variable, "").strip()  # files of secrets end with a newline
        if not (self._key.isascii() and self._key.isprintable()):
            raise OptionError(
                f"'openai:{name}': the environment variable that key_variable names holds characters that no "
                "key has: a line break, a typographic quotation mark or the like. Export it again."
            )
        if not self._key and "key_variable" in settings.model_fields_set:
            raise OptionError(
                f"'openai:{name}': key_variable names an environment variable that is not set: export it "
                "with the key, or leave key_variable out if the server needs none."
            )
        self._said = False
        self._session = requests.Session()
        self._session.trust_env = False  # else ~/.netrc could replace the key, and proxies would see it
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=2, pool_maxsize=settings.concurrency))

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def post(self, body: Mapping[str, Any], end: float) -> Answered:
        """Send one request; all of the answer must be there before ``end`` (monotonic). Raises Passing."""
        left = end - time.monotonic()
        if left <= 0:
            raise Late(f"{self.where}: no answer in time")
        try:
            with self._session.post(
                self._url,
                json=body,
                auth=self._sign,
                timeout=(min(left, _CONNECT_S), left),
                stream=True,
                allow_redirects=False,
            ) as response:
                data = _read_all(response, end)
                if self._key:  # a server may echo it
                    data = data.replace(self._key.encode(), b"[key]")
                return Answered(response.status_code, dict(response.headers), _parsed(data))
        except (requests.RequestException, OSError) as error:
            failed = disconnected(error, self.where, self._key)
        raise failed

    def failure(self, answered: Answered) -> Passing | CoachStopped:
        """What an answer other than 200 means."""
        where, key = self.where, self._key
        return failure(answered.status, answered.body, answered.headers, where, key, self._key_variable)

    def rejected(self, answered: Answered) -> Rejected | None:
        """What an answer means that may concern this one request alone, else None."""
        return rejected(answered.status, answered.body, self.where, self._key)

    def read(self, body: Any) -> Completed:
        """The first choice of the answer 200. Raises Passing if it is not a chat completion.

        Servers that are only like OpenAI's may send a text as a list of parts, and counts as text.
        """
        try:
            choice = body["choices"][0]
            message = choice["message"]
            usage, odd = usage_of(body)
            self._say(odd)
            return Completed(
                text=_text(message.get("content")),
                thoughts=_thoughts(message),
                finish=str(choice.get("finish_reason") or ""),
                refusal=_refusal(message.get("refusal")),
                usage=usage,
                version=str(body.get("model") or ""),
                number=str(body.get("id") or ""),
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            what = str(error) if isinstance(error, _Odd) else type(error).__name__
            raise Passing(f"{self.where}: the answer is not a chat completion ({what})") from None

    def _say(self, odd: str) -> None:
        """Warn, once, that tokens are unknown."""
        if odd and not self._said:
            self._said = True
            warnings.warn(
                f"{self.where}: the usage has {odd}: such answers count, their tokens are unknown, and a "
                "budget is charged the most that they may cost.",
                CoachWarning,
                stacklevel=2,
            )

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        return request


def _read_all(response: requests.Response, end: float) -> bytes:
    """The body, at most MAX_REPLY_BYTES of it, all before ``end``. Raises OSError."""
    found = bytearray()
    for chunk in response.iter_content(1 << 16):
        found += chunk
        if time.monotonic() > end:
            raise TimeoutError("the answer came too slowly")
        if len(found) > MAX_REPLY_BYTES:
            raise OSError(f"the answer exceeds {MAX_REPLY_BYTES} bytes")
    return bytes(found)


class _Odd(TypeError):
    """A field of a completion is not what it should be."""


def _text(value: Any) -> str:
    """A text, or the texts of a list of parts; parts that are no text, such as pictures, are left out."""
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise _Odd(f"{value!r:.60} where a text should be")
    parts = [part.get("text") if isinstance(part, dict) else part for part in value]
    return "".join(part for part in parts if isinstance(part, str))


def _thoughts(message: Any) -> str:
    """What a server tells of the model's thinking; in a form that nobody knows, nothing."""
    for value in (message.get("reasoning_content"), message.get("reasoning")):
        if isinstance(value, (str, list)) and (found := _text(value)):
            return found
    return ""


def _refusal(value: Any) -> str:
    """A refusal as text, whatever its form; empty for none."""
    if not value or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def _parsed(data: bytes) -> Any:
    """JSON, else text: error pages of gateways are HTML."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")
