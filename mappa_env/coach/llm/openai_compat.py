"""Any server with OpenAI's chat completions API: vLLM, SGLang, llama.cpp, gateways, OpenAI."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from mappa_env.coach.llm.http import MAX_REPLY_BYTES, disconnected, failure
from mappa_env.coach.llm.models import Model
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Passing, Reply, Request, Unanswered, Usage
from mappa_env.errors import OptionError

FORMATS = ("json_schema", "json_object", "text")
"""From strict to none; if the server refuses one, the next is tried. Answers are always validated."""
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)
_CONNECT_S = 10.0


class OpenAIBackend:
    """A model behind an OpenAI-compatible server.

    ``base_url`` has the form of OpenAI's clients, ``http://localhost:8000/v1``; raises OptionError otherwise.
    The key, if needed, comes only from the environment.
    """

    name = "openai"

    def __init__(self, model: Model, settings: Settings, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise OptionError(
                f"coach 'openai:{model.name}': base_url must look like http://localhost:8000/v1, without a "
                f"user name, key or query."
            )
        self._model = model
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._where = f"openai:{model.name}@{base_url}"
        self._key_variable = settings.key_variable
        self._key = os.environ.get(settings.key_variable, "")
        self._extra = dict(settings.extra)
        self._format = 0
        self._session = requests.Session()
        self._session.trust_env = False  # else ~/.netrc could replace the key, and proxies would see it
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=2, pool_maxsize=settings.concurrency))

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """See ``Backend.complete``."""
        end = time.monotonic() + timeout_s
        while True:
            tried = self._format
            status, headers, body = self._post(self._body(request, FORMATS[tried]), end)
            if status == 200:
                return self._read(body)
            refused = status in (400, 422) and "response_format" in json.dumps(body)
            if not refused or tried + 1 >= len(FORMATS):
                raise failure(status, body, headers, self._where, self._key, self._key_variable)
            self._format = max(self._format, tried + 1)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _body(self, request: Request, form: str) -> dict[str, Any]:
        text = "\n\n".join(request.parts)
        if form != "json_schema":
            schema = json.dumps(request.schema)
            text += f"\n\nAnswer with one JSON object of this schema and nothing else:\n{schema}"
        body: dict[str, Any] = {
            "model": self._model.name,
            "messages": [{"role": "system", "content": request.system}, {"role": "user", "content": text}],
            "max_completion_tokens": request.max_output_tokens,
        }
        if self._model.sampling:
            body |= {"temperature": self._model.temperature, "seed": request.sample}
        if form == "json_schema":
            named = {"name": "verdict", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": form, "json_schema": named}
        elif form == "json_object":
            body["response_format"] = {"type": form}
        return body | self._extra

    def _post(self, body: dict[str, Any], end: float) -> tuple[int, dict[str, str], Any]:
        left = end - time.monotonic()
        if left <= 0:
            raise Passing(f"{self._where}: no answer in time")
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
                return response.status_code, dict(response.headers), _parsed(data)
        except (requests.RequestException, OSError) as error:
            failed = disconnected(error, self._where, self._key)
        raise failed

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        return request

    def _read(self, body: Any) -> Reply:
        try:
            choice = body["choices"][0]
            message = choice["message"]
            counts = body.get("usage") or {}
            details = counts.get("prompt_tokens_details") or {}
            thoughts = (counts.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
            output = counts.get("completion_tokens") or 0
            usage = Usage(
                counts.get("prompt_tokens") or 0,
                details.get("cached_tokens") or 0,
                output - thoughts,
                thoughts,
            )
            text, reason = message.get("content") or "", choice.get("finish_reason") or ""
            version, number = str(body.get("model") or ""), str(body.get("id") or "")
            refusal = message.get("refusal")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            kind = type(error).__name__
            raise Passing(f"{self._where}: the answer is not a chat completion ({kind})") from None
        if reason == "content_filter" or refusal:
            raise Unanswered("the server refused to answer", usage, version, final=True)
        text = text.rpartition("</think>")[2].strip()  # servers without a reasoning parser leave it in
        if not text or reason == "length":
            raise Unanswered(f"no answer, finish reason {reason or 'unknown'}", usage, version)
        fenced = _FENCE.match(text)
        return Reply(fenced[1] if fenced else text, usage, version, number)


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


def _parsed(data: bytes) -> Any:
    """JSON, else text: error pages of gateways are HTML."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")
