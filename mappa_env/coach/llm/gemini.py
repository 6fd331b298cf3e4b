"""Gemini as the coach: Google's Developer API, Vertex AI, and Vertex AI in express mode.

google-genai builds and parses the messages. Its own retries, continuation and function calling are off. It
has no time limit for a whole answer, so the transport sets one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import httpx2
from google import genai
from google.genai import errors, types

from mappa_env.coach.llm.http import MAX_REPLY_BYTES, disconnected, failure, hidden, rejected
from mappa_env.coach.llm.models import Model
from mappa_env.coach.llm.rejections import COACH, Rejections
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Passing, Rejected, Reply, Request, Unanswered, Usage
from mappa_env.errors import CoachError, CoachStopped

API_VERSIONS = {"developer": "v1beta", "vertex": "v1beta1", "express": "v1beta1"}
"""On the Developer API, ``v1`` supports neither JSON schemas nor thinking options."""
KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR"}
)


class GeminiBackend:
    """A Gemini model behind one of Google's services.

    Keys come only from the environment: GEMINI_API_KEY or GOOGLE_API_KEY; Vertex AI uses the machine's Google
    credentials. Raises CoachStopped if the key or the project is missing.
    """

    name = "gemini"

    def __init__(self, model: Model, settings: Settings) -> None:
        api = settings.api
        self._model = model
        self._rejections = Rejections(COACH)
        self._key = next((key for name in KEYS if (key := os.environ.get(name, "").strip())), "")
        self._key_source = "the machine's Google credentials" if api == "vertex" else KEYS[0]
        if api != "vertex" and not self._key:
            raise CoachStopped(f"coach 'gemini:{model.name}' has no key: set the variable {KEYS[0]}.")
        if api == "vertex" and not (settings.project and settings.location):
            raise CoachStopped(f"coach 'gemini:{model.name}': api='vertex' needs project= and location=.")
        self._http = httpx2.Client(
            transport=_Bounded(limits=httpx2.Limits(max_connections=settings.concurrency)),
            follow_redirects=False,
        )
        options = types.HttpOptions(
            api_version=settings.api_version or API_VERSIONS[api],
            base_url=settings.base_url,
            httpx_client=self._http,
        )
        access: dict[str, Any] = {"api_key": self._key}
        if api == "vertex":
            access = {"project": settings.project, "location": settings.location}
        try:
            self._client = genai.Client(enterprise=api != "developer", http_options=options, **access)
        except Exception as error:  # noqa: BLE001  (google-auth raises many types)
            raise CoachStopped(
                f"coach 'gemini:{model.name}': {type(error).__name__}: {hidden(str(error), self._key)}"
            ) from None

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """See ``Backend.complete``."""
        where = f"gemini:{self._model.name}"
        failed: Exception
        no: Rejected | None = None
        try:
            found = self._client.models.generate_content(
                model=self._model.name,
                contents=types.Content(
                    role="user", parts=[types.Part.from_text(text=part) for part in request.parts]
                ),
                config=self._config(request, timeout_s),
            )
        except errors.APIError as error:
            headers = dict(getattr(error.response, "headers", None) or {})
            no = rejected(error.code, error.details, where, self._key)
            failed = failure(error.code, error.details, headers, where, self._key, self._key_source)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            failed = disconnected(error, where, self._key)
        except (ValueError, TypeError, KeyError, AttributeError, errors.UnknownApiResponseError) as error:
            # invalid JSON, or JSON of another schema: the errors of json and pydantic are ValueErrors
            failed = Passing(f"{where}: the answer is not a Gemini response ({type(error).__name__})")
        else:
            self._rejections.answered()
            return _read(found)
        if no is not None and no.kind:
            failed = self._rejections.unanswered(no)
        raise failed  # outside the handlers, so that the server's message is not chained to it

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._http.close()

    def _config(self, request: Request, timeout_s: float) -> types.GenerateContentConfig:
        model = self._model
        sampling: dict[str, Any] = (
            {"temperature": model.temperature, "seed": request.sample} if model.sampling else {}
        )
        thinking: types.ThinkingConfig | None = None
        if model.thinking_level is not None:
            thinking = types.ThinkingConfig(thinking_level=types.ThinkingLevel(model.thinking_level.upper()))
        elif model.thinking_budget is not None:
            thinking = types.ThinkingConfig(thinking_budget=model.thinking_budget)
        return types.GenerateContentConfig(
            system_instruction=request.system,
            response_mime_type="application/json",
            response_json_schema=dict(request.schema),
            max_output_tokens=request.max_output_tokens,
            thinking_config=thinking,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
            http_options=types.HttpOptions(timeout=max(int(timeout_s * 1000), 1)),
            **sampling,
        )


def _read(found: types.GenerateContentResponse) -> Reply:
    counts = found.usage_metadata
    usage = Usage(known=False)
    if counts is not None:
        numbers = (
            counts.prompt_token_count or 0,
            counts.cached_content_token_count or 0,
            counts.candidates_token_count or 0,
            counts.thoughts_token_count or 0,
        )
        if min(numbers) >= 0:
            usage = Usage(*numbers)
    version = found.model_version or ""
    feedback = found.prompt_feedback
    if feedback is not None and feedback.block_reason:
        raise Unanswered(f"the prompt was blocked: {feedback.block_reason}", usage, version, final=True)
    candidate = found.candidates[0] if found.candidates else None
    if candidate is None:
        raise Unanswered("the answer is empty", usage, version)
    parts = (candidate.content.parts if candidate.content else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    reason = str(getattr(candidate.finish_reason, "value", candidate.finish_reason) or "")
    if reason in _BLOCKED:
        raise Unanswered(f"the answer was blocked: {reason}", usage, version, final=True)
    if not text or reason == "MAX_TOKENS":
        raise Unanswered(f"no answer, finish reason {reason or 'unknown'}", usage, version)
    return Reply(text, usage, version, found.response_id or "")


class _Bounded(httpx2.HTTPTransport):
    """A transport whose read timeout and size limit apply to the whole answer, not to each chunk."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        seconds = request.extensions.get("timeout", {}).get("read")
        if seconds is None:  # would wait forever
            raise CoachError("a request without a time limit")
        end = time.monotonic() + seconds
        response = super().handle_request(request)
        assert isinstance(response.stream, httpx2.SyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Stream(response.stream, end, request),
            extensions=response.extensions,
        )


class _Stream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, end: float, request: httpx2.Request) -> None:
        self._stream, self._end, self._request = stream, end, request

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if time.monotonic() > self._end:
                raise httpx2.ReadTimeout("the answer came too slowly", request=self._request)
            if size > MAX_REPLY_BYTES:
                raise httpx2.ReadError(f"the answer exceeds {MAX_REPLY_BYTES} bytes", request=self._request)
            yield chunk

    def close(self) -> None:
        """Close the connections."""
        self._stream.close()
