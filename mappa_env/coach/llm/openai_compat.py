"""Any server with OpenAI's chat completions API: vLLM, SGLang, llama.cpp, gateways, OpenAI."""

from __future__ import annotations

import json
import time
from typing import Any

from mappa_env.coach.llm.completions import Completed, Completions
from mappa_env.coach.llm.models import Model
from mappa_env.coach.llm.rejections import COACH, Rejections
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Reply, Request, Unanswered

FORMATS = ("json_schema", "json_object", "text")
"""From strict to none; if the server refuses one, the next is tried. Answers are always validated."""
_FENCE = "```"


class OpenAIBackend:
    """A model behind an OpenAI-compatible server. Raises OptionError: see ``Completions``."""

    name = "openai"

    def __init__(self, model: Model, settings: Settings, base_url: str) -> None:
        self._model = model
        self._server = Completions(model.name, base_url, settings)
        self._extra = dict(settings.extra)
        self._format = 0
        self._rejections = Rejections(COACH)

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """See ``Backend.complete``."""
        end = time.monotonic() + timeout_s
        while True:
            tried = self._format
            answered = self._server.post(self._body(request, FORMATS[tried]), end)
            if answered.status == 200:
                found = self._server.read(answered.body)
                self._rejections.answered()
                return _verdict(found)
            refused = answered.status in (400, 422) and "response_format" in json.dumps(answered.body)
            if not refused or tried + 1 >= len(FORMATS):
                no = self._server.rejected(answered)
                raise self._rejections.unanswered(no) if no and no.kind else self._server.failure(answered)
            self._format = max(self._format, tried + 1)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

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


def _verdict(found: Completed) -> Reply:
    """The text in which a verdict must be. Raises Unanswered."""
    if found.finish == "content_filter" or found.refusal:
        raise Unanswered("the server refused to answer", found.usage, found.version, final=True)
    text = found.text.rpartition("</think>")[2].strip()  # servers without a reasoning parser leave it in
    if not text or found.finish == "length":
        reason = found.finish or "unknown"
        raise Unanswered(f"no answer, finish reason {reason}", found.usage, found.version)
    return Reply(_unfenced(text), found.usage, found.version, found.number)


def _unfenced(text: str) -> str:
    """``text`` without a code fence around all of it."""
    first, _, rest = text.partition("\n")
    if first.rstrip() not in (_FENCE, f"{_FENCE}json") or not rest.endswith(_FENCE):
        return text
    return rest.removesuffix(_FENCE).strip()
