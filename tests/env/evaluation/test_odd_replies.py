"""Replies of servers that are only like OpenAI's: read where the sense is clear, else said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fake_llm as fakes
from fake_llm import Call, FakeServer, serving
from mappa_env.cli import main

ENV = "mappa/MathChat-v0"


def play(out: Path, change: Any, **options: Any) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the episodes, where ``change`` is done to every reply."""

    def say(fake: FakeServer, call: Call) -> Any:
        found = fakes.envelope(fake, "\\boxed{42}")
        change(found)
        return 200, {}, json.dumps(found).encode()

    with serving("openai", otherwise=say) as fake:
        spec = json.dumps(
            {"name": f"openai:m@{fake.url}", "deadline_s": 1.5, "base_s": 0.01, "breaker_failures": 999}
            | options
        )
        status = main(["eval", ENV, "--model", spec, "--limit", "1", "--sandbox", "null", "--out", str(out)])
    path = out / "episodes.jsonl"
    return status, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def message(**changes: Any) -> Any:
    return lambda found: found["choices"][0]["message"].update(changes)


def usage(**changes: Any) -> Any:
    return lambda found: found["usage"].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        message(content=[{"type": "text", "text": "\\boxed"}, {"type": "text", "text": "{42}"}]),
        message(content=["\\boxed{42}"]),
        message(content=[{"type": "image_url", "image_url": {}}, {"type": "text", "text": "\\boxed{42}"}]),
        message(refusal={"reason": None}),
        message(refusal=False),
        message(reasoning=[{"type": "text", "text": "let me see"}]),
        usage(prompt_tokens="10", completion_tokens="20", completion_tokens_details=None),
        usage(prompt_tokens=10.0),
        usage(prompt_tokens_details=None, completion_tokens=None),
        message(reasoning_content={"steps": []}),
        message(reasoning_content=1.5),
        lambda found: found["choices"][0].update(finish_reason={}),
        lambda found: found["choices"][0].update(finish_reason=3),
        lambda found: found.pop("usage"),
        lambda found: found.update(model=None, id=7),
    ],
)
def test_what_is_clear_is_read(change: Any, tmp_path: Path) -> None:
    status, rows = play(tmp_path / "e", change)
    assert status == 0
    assert len(rows) == 1
    assert all(tokens["prompt"] >= 0 and tokens["output"] >= 0 for tokens in rows[0]["tokens"].values())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (message(content=5), "5 where a text should be"),
        (message(content={"text": "x"}), "where a text should be"),
        (lambda found: found.update(choices={}), "not a chat completion"),
        (lambda found: found["choices"][0].update(message="x"), "not a chat completion"),
    ],
)
def test_what_is_not_is_said(
    change: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, rows = play(tmp_path / "e", change)
    assert (status, rows) == (2, [])
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (usage(prompt_tokens="9" * 5000), "where a number of tokens should be"),
        (usage(prompt_tokens="many"), "'many' where a number of tokens should be"),
        (usage(prompt_tokens=-1), "-1 where a number"),
        (usage(prompt_tokens=10**30), "1000000000000000000000000000000 where a number"),
        (usage(prompt_tokens=None), "None where a number"),
        (usage(completion_tokens=True), "True where a number"),
        (usage(completion_tokens=float("nan")), "nan where a number"),
        (usage(prompt_tokens_details=[1]), "[1] where an object"),
        (lambda found: found.update(usage="x"), "'x' where an object"),
        (lambda found: found.update(usage=None), "None where a number"),
        (lambda found: found.pop("usage"), "None where a number"),
    ],
)
def test_odd_counts_of_tokens_discard_no_answer(
    change: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e"
    status, rows = play(out, change, price={"input": 1.0, "output": 1.0})
    assert (status, len(rows)) == (0, 1)
    said = capsys.readouterr()
    assert said.err.count(words) == 1
    assert "tokens are unknown" in said.err
    tokens = rows[0]["tokens"].values()
    assert all(each["unknown"] == each["calls"] and each["dollars"] is None for each in tokens)
    ledger = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert all(not row["known"] and row["cost"] > 0.004 for row in ledger)  # its 4096 tokens, at the least
    assert main(["leaderboard", str(out), "--html", str(tmp_path / "page.html")]) == 0
    assert "≥" in (tmp_path / "page.html").read_text()


def test_a_refusal_as_an_object_is_a_refusal(tmp_path: Path) -> None:
    status, rows = play(tmp_path / "e", message(content=None, refusal={"reason": "no"}))
    assert status == 0
    assert rows[0]["flaws"] == {"refused": 3}
