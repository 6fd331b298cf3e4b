"""``mappa-env eval`` without a server: scripted teams and trivial baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_chats import multiplier, speaking
from fake_llm import serving
from mappa_env.cli import main
from mappa_env.evaluation.chat import Chat

ENV = "mappa/MathChat-v0"


def evaluate(out: Path, *arguments: str) -> int:
    return main(["eval", ENV, "--sandbox", "calculator", "--limit", "12", "--out", str(out), *arguments])


def success(out: Path) -> float:
    found = json.loads((out / "evaluation.json").read_text())["environments"][0]
    return float(found["success"]["mean"])


def test_scripted_teams_and_baselines_are_ranked_with_models(tmp_path: Path) -> None:
    participants = {
        "expert": "scripted:expert",
        "faulty": "scripted:faulty",
        "zero": "constant:\\boxed{0}",
        "nothing": "constant:",
        "first": "trivial:first-number",
        "repeat": "trivial:repeat",
    }
    for name, spec in participants.items():
        assert evaluate(tmp_path / name, "--model", spec) == 0
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        assert evaluate(tmp_path / "model", "--model", f"openai:m@{fake.url}") == 0
    page = tmp_path / "page.html"
    folders = [str(tmp_path / name) for name in [*participants, "model"]]
    assert main(["leaderboard", *folders, "--html", str(page), "--json", str(tmp_path / "rows.json")]) == 0
    ranked = json.loads((tmp_path / "rows.json").read_text())[ENV]
    assert ranked[0]["models"] == "scripted:expert"
    assert ranked[0]["success"]["mean"] == 1
    assert {row["models"] for row in ranked} == {*participants.values(), "m"}
    assert {row["dollars"] for row in ranked if row["models"] != "m"} == {0.0}
    assert success(tmp_path / "zero") == success(tmp_path / "nothing") == success(tmp_path / "repeat") == 0
    assert "scripted:expert" in page.read_text()


def test_one_agent_may_be_scripted_in_a_team_of_others(tmp_path: Path) -> None:
    assert evaluate(tmp_path / "a", "--model", "scripted:expert", "--agent", "verifier_0=constant:Fine.") == 0
    assert success(tmp_path / "a") == 0
    fault = "coder_0=scripted:wrong_digit"
    assert evaluate(tmp_path / "b", "--model", "scripted:expert", "--agent", fault) == 0
    row = json.loads((tmp_path / "b" / "episodes.jsonl").read_text().splitlines()[0])
    assert row["versions"]["coder_0"] == "scripted:wrong_digit"
    assert row["versions"]["solver_0"] == "scripted:expert"
    assert success(tmp_path / "b") < 1


def test_a_constant_may_be_hostile_or_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", "[/] [red]<img src=x>[/red]"), ("b", "y" * 5000), ("c", "\ud800 \x1b[31m")):
        assert evaluate(tmp_path / name, "--model", f"constant:{text}") == 0
    shown = capsys.readouterr().out
    assert "[/]" in shown
    assert "y" * 100 not in shown
    folders = [str(tmp_path / name) for name in "abc"]
    assert main(["leaderboard", *folders, "--html", str(tmp_path / "page.html")]) == 0
    assert "<img" not in (tmp_path / "page.html").read_text()


def test_a_script_repeats_its_episodes(tmp_path: Path) -> None:
    found = []
    for name, threads in (("a", "1"), ("b", "8")):
        assert evaluate(tmp_path / name, "--model", "scripted:faulty", "--concurrency", threads) == 0
        lines = (tmp_path / name / "episodes.jsonl").read_text().splitlines()
        rows = [{**json.loads(line), "seconds": 0} for line in lines]
        found.append(sorted(rows, key=lambda row: str(row["task_id"])))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "scripted:exprt"], "has no fault 'exprt'"),
        (["--model", "trivial:first"], "first-number"),
        (["--model", "{name: 'scripted:expert', budget: 3}"], "remove budget"),
        (["--model", "scripted:expert", "--temperature", "1"], "--temperature 1.0 is for a model"),
        (["--model", "constant:x", "--max-tokens", "9"], "--max-tokens 9 is for a model"),
        (["--model", "trivial:repeat", "--base-url", "http://x/v1"], "none plays"),
    ],
)
def test_bad_players_are_refused_before_anything_is_played(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(tmp_path / "e", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("options", "timeout", "deadline"),
    [
        ({}, 409.6, 1228.8),
        ({"max_output_tokens": 100}, 120, 600),
        ({"max_output_tokens": 16384}, 1638.4, 4915.2),
        ({"max_output_tokens": 16384, "timeout_s": 30}, 30, 600),
        ({"timeout_s": 1000}, 1000, 3000),
        ({"deadline_s": 50}, 409.6, 50),
    ],
)
def test_the_time_of_a_call_follows_from_its_tokens(
    options: dict[str, float], timeout: float, deadline: float
) -> None:
    chat = Chat("openai:m@http://127.0.0.1:9/v1", options)
    assert (chat.settings.timeout_s, chat.settings.deadline_s) == pytest.approx((timeout, deadline))
    chat.close()


def test_an_answer_that_takes_too_long_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving("openai", otherwise=speaking(multiplier), latency_s=0.6) as fake:
        spec = f"{{name: 'openai:m@{fake.url}', deadline_s: 0.5}}"
        asked = ["--limit", "1", "--model", spec, "--timeout", "0.3"]
        assert evaluate(tmp_path / "slow", *asked) == 2
        words = capsys.readouterr().err
        assert "0.3 s" in words
        assert "raise --timeout" in words
    with serving("openai", otherwise=speaking(multiplier), latency_s=0.1) as fake:
        asked = ["--model", f"openai:m@{fake.url}", "--timeout", "5", "--limit", "1"]
        assert evaluate(tmp_path / "fast", *asked) == 0
    assert evaluate(tmp_path / "none", "--model", "constant:x", "--timeout", "5") == 2
    assert evaluate(tmp_path / "none", "--model", "openai:m@http://x/v1", "--timeout", "0") == 2
