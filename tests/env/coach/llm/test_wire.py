"""What travels to the servers, field by field: against the published formats, and against OpenAI's client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import fake_llm as fakes
from fake_llm import FakeServer
from llm_coach import KEY
from mappa_env.coach.llm.gemini import GeminiBackend
from mappa_env.coach.llm.models import model
from mappa_env.coach.llm.openai_compat import OpenAIBackend
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Backend, Reply, Request

SCHEMA = {
    "type": "object",
    "properties": {
        "criteria": {"type": "object", "properties": {"honesty": {"type": "object"}}},
        "blame": {"type": "string", "enum": ["nobody"]},
    },
    "required": ["criteria", "blame"],
    "additionalProperties": False,
}
ASKED = Request("Judge it.", ("the task", '{"agent": "solver_0"}'), SCHEMA, max_output_tokens=700, sample=3)
DEVELOPER, EXPRESS = "/v1beta/", "/v1beta1/publishers/google/"


@pytest.fixture
def gemini() -> Iterator[FakeServer]:
    with fakes.serving("gemini") as server:
        yield server


@pytest.fixture
def openai() -> Iterator[FakeServer]:
    with fakes.serving("openai") as server:
        yield server


def answer(backend: Backend) -> Reply:
    try:
        return backend.complete(ASKED, 10.0)
    finally:
        backend.close()


@pytest.mark.parametrize(("api", "path"), [("developer", DEVELOPER), ("express", EXPRESS)])
@pytest.mark.parametrize(
    ("name", "tuning"),
    [
        ("gemini-3.8-flash", {"thinkingConfig": {"thinking_level": "LOW"}}),
        ("gemini-2.5-flash", {"thinkingConfig": {"thinking_budget": 1024}, "temperature": 0.0, "seed": 3}),
        ("some-other-model", {"temperature": 0.0, "seed": 3}),
    ],
)
def test_gemini_gets_these_fields_and_no_others(
    gemini: FakeServer, api: Any, path: str, name: str, tuning: dict[str, Any]
) -> None:
    """ai.google.dev/api/generate-content, as google-genai 3.4 writes it; no safety settings, no tools."""
    answer(GeminiBackend(model(name), Settings(api=api, base_url=gemini.url)))
    (call,) = gemini.calls
    assert call.path == f"{path}models/{name}:generateContent"
    assert call.headers["x-goog-api-key"] == KEY
    assert call.headers["x-server-timeout"] == "10"
    assert call.body == {
        "systemInstruction": {"parts": [{"text": "Judge it."}], "role": "user"},
        "contents": [{"parts": [{"text": "the task"}, {"text": '{"agent": "solver_0"}'}], "role": "user"}],
        "generationConfig": {
            "maxOutputTokens": 700,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
            **tuning,
        },
    }


def test_what_gemini_counts_is_what_is_recorded(gemini: FakeServer) -> None:
    gemini.usage = (1200, 300, 80, 45)
    found = answer(GeminiBackend(model("gemini-3.8-flash"), Settings(base_url=gemini.url)))
    usage = found.usage
    assert (usage.prompt, usage.cached, usage.output, usage.thoughts) == (1200, 300, 80, 45)
    assert (found.model_version, found.response_id) == (gemini.model_version, "r1")
    assert json.loads(found.text)["blame"] == "nobody"  # without the thought that came before it


def test_openais_client_sends_the_same(openai: FakeServer) -> None:
    """Where it is installed: vLLM brings it."""
    client = pytest.importorskip("openai").OpenAI(base_url=openai.url, api_key=KEY, max_retries=0)
    ours = answer(OpenAIBackend(model("some-model"), Settings(), openai.url))
    theirs = client.chat.completions.create(
        model="some-model",
        messages=[
            {"role": "system", "content": "Judge it."},
            {"role": "user", "content": 'the task\n\n{"agent": "solver_0"}'},
        ],
        max_completion_tokens=700,
        temperature=0.0,
        seed=3,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA},
        },
    )
    first, second = openai.calls
    assert first.path == second.path
    assert first.body == second.body
    named = ("authorization", "content-type")
    assert [first.headers[name] for name in named] == [second.headers[name] for name in named]
    counts = theirs.usage
    assert ours.text == theirs.choices[0].message.content
    assert ours.usage.prompt == counts.prompt_tokens
    assert ours.usage.cached == counts.prompt_tokens_details.cached_tokens
    assert ours.usage.thoughts == counts.completion_tokens_details.reasoning_tokens
    assert ours.usage.output + ours.usage.thoughts == counts.completion_tokens
    assert (ours.model_version, ours.response_id) == (theirs.model, "chatcmpl-1")
