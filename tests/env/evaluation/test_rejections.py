"""Requests that a server rejects: one of many ends no evaluation, all of them do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_chats import multiplier, speaking
from fake_llm import Call, FakeServer, failing, serving
from mappa_env.cli import main
from mappa_env.coach.llm.http import rejected
from mappa_env.coach.llm.rejections import PATIENCE

ENV = "mappa/MathChat-v0"
WORDS = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."


def evaluate(out: Path, *arguments: str) -> int:
    fast = ["--sandbox", "null", "--concurrency", "2", "--out", str(out)]
    return main(["eval", ENV, *fast, *arguments])


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("code", "flaw"), [("context_length_exceeded", "too_long"), ("content_filter", "refused")]
)
def test_a_prompt_that_a_model_cannot_take_is_an_action_with_a_flaw(
    code: str, flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def say(fake: FakeServer, call: Call) -> Any:
        seen.append(call)
        if len(seen) == 4:
            body = {"error": {"code": code, "message": WORDS if flaw == "too_long" else "filtered"}}
            return 400, {}, json.dumps(body).encode()
        return speaking(multiplier)(fake, call)

    with serving("openai", otherwise=say) as fake:
        spec = f"{{name: 'openai:m@{fake.url}', price: {{input: 1, output: 1}}}}"
        assert evaluate(tmp_path / "e", "--model", spec, "--limit", "5") == 0
        assert len(fake.calls) == 15
    assert sum(row["flaws"].get(flaw, 0) for row in rows(tmp_path / "e")) == 1
    spent = [tokens for row in rows(tmp_path / "e") for tokens in row["tokens"].values()]
    assert sum(tokens["calls"] for tokens in spent) == 15
    assert sum(tokens["dollars"] for tokens in spent) == pytest.approx(14 * 1150e-6)
    assert f"1 {flaw}" in capsys.readouterr().out


def test_a_request_rejected_for_another_reason_fails_its_episode_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = []

    def say(fake: FakeServer, call: Call) -> Any:
        bad.append(call)
        return (failing(400, "odd letters") if len(bad) == 4 else speaking(multiplier))(fake, call)

    with serving("openai", otherwise=say) as fake:
        arguments = ["--model", f"openai:m@{fake.url}", "--limit", "5"]
        assert evaluate(tmp_path / "e", *arguments) == 2
        words = capsys.readouterr().err
        assert "1 of 5 episodes could not be played" in words
        assert "odd letters" in words
        assert len(rows(tmp_path / "e")) == 4
        assert evaluate(tmp_path / "e", *arguments) == 0
    assert len(rows(tmp_path / "e")) == 5


@pytest.mark.parametrize(("words", "remedy"), [("no such model", "name"), (WORDS, "--max-tokens")])
def test_a_server_that_rejects_every_request_ends_it_early(
    words: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving("openai", otherwise=failing(400, words)) as fake:
        assert evaluate(tmp_path / "e", "--model", f"openai:m@{fake.url}", "--limit", "40") == 2
        assert len(fake.calls) <= PATIENCE + 2
    shown = capsys.readouterr().err
    assert words in shown
    assert remedy in shown


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": WORDS}, "too_long"),
        ({"message": "The input (9000 tokens) is longer than the model's context length (8192)"}, "too_long"),
        ({"message": "x", "type": "exceed_context_size_error"}, "too_long"),
        ({"message": "x", "code": "context_length_exceeded"}, "too_long"),
        ({"message": "prompt is too long: 210000 tokens > 200000 maximum"}, "too_long"),
        ({"message": "The input token count (9) exceeds the maximum number of tokens allowed"}, "too_long"),
        ({"message": "The decoder prompt (length 5000) is longer than the maximum model length"}, "too_long"),
        ({"message": "`inputs` tokens + `max_new_tokens` must be <= 4096"}, "too_long"),
        ({"message": "Please reduce the length of the messages or completion."}, "too_long"),
        ({"message": "Input length 5000 exceeds maximum allowed length 4096"}, "too_long"),
        ({"message": "max_new_tokens must be strictly positive"}, ""),
        ({"message": "'max_completion_tokens' is too large: 4096"}, ""),
        ({"message": "flagged", "code": "invalid_prompt"}, "refused"),
        ({"message": "temperature is not supported"}, ""),
        ("an odd text", ""),
        ([1], ""),
    ],
)
def test_what_servers_say_is_told_apart(error: Any, kind: str) -> None:
    found = rejected(400, {"error": error}, "openai:m", "")
    assert found is not None
    assert found.kind == kind


def test_a_wrong_key_and_a_missing_model_are_no_single_requests() -> None:
    assert rejected(404, {"error": {"message": WORDS}}, "openai:m", "") is None
    assert rejected(400, {"error": {"status": "API_KEY_INVALID"}}, "openai:m", "") is None
