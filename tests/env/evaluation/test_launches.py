"""Several launches of one evaluation: what they share, what may differ, and what must not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_chats import multiplier, speaking
from fake_llm import Call, FakeServer, failing, serving
from mappa_env.cli import main
from mappa_env.evaluation.abandoned import FILE, Abandoned, append_abandoned, load_abandoned
from mappa_env.evaluation.episodes import Tokens
from mappa_env.evaluation.lock import locked

ENV = "mappa/MathChat-v0"


def evaluate(out: Path, *arguments: str, concurrency: str = "2") -> int:
    fast = ["--sandbox", "null", "--concurrency", concurrency, "--out", str(out)]
    return main(["eval", ENV, *fast, *arguments])


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def spec(url: str, **options: Any) -> str:
    """One call costs 1,150 tokens, so $1.15 at $1,000 a million."""
    return json.dumps({"name": f"openai:m@{url}", "price": {"input": 1000, "output": 1000}, **options})


def test_a_budget_holds_over_launches_and_may_be_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, limits = tmp_path / "e", ["--limit", "4", "--max-tokens", "10"]
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        for _ in range(3):
            assert evaluate(out, "--model", spec(fake.url, budget=9), *limits) == 2
            words = capsys.readouterr().err
            assert "the budget of $9 is spent" in words
            assert f"--out {out}" in words
        assert len(fake.calls) * 1.15 <= 9
        assert evaluate(out, "--model", spec(fake.url, budget=1000), *limits) == 0
        assert len((out / "ledger.jsonl").read_text().splitlines()) == len(fake.calls)
    found = json.loads((out / "evaluation.json").read_text())["environments"][0]
    played = sum(tokens["calls"] for tokens in found["tokens"].values())
    lost = found["abandoned"].values()
    assert played + sum(tokens["calls"] for tokens in lost) == len(fake.calls)
    assert main(["leaderboard", str(out), "--json", str(tmp_path / "rows.json")]) == 0
    row = json.loads((tmp_path / "rows.json").read_text())[ENV][0]
    assert row["calls"] == len(fake.calls)
    assert row["dollars"] == pytest.approx(1.15 * len(fake.calls))


def test_each_model_has_a_ledger_of_its_own(tmp_path: Path) -> None:
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        other = "verifier_0=" + spec(fake.url, temperature=0.5)
        assert evaluate(tmp_path / "e", "--model", spec(fake.url), "--agent", other, "--limit", "2") == 0
    names = {path.name: len(path.read_text().splitlines()) for path in (tmp_path / "e").glob("ledger*")}
    assert names == {"ledger.jsonl": 4, "ledger-verifier_0.jsonl": 2}


def test_another_address_goes_on_and_another_model_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, limits = tmp_path / "e", ["--limit", "3"]
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        assert evaluate(out, "--model", spec(fake.url), *limits) == 0
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:1]))
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        practical = {"timeout_s": 50, "deadline_s": 70, "concurrency": 3, "limits": {"requests": 999}}
        assert evaluate(out, "--model", spec(fake.url, **practical), *limits) == 0
        assert fake.url in (out / "settings.json").read_text()
        assert len(fake.calls) == 6
        assert evaluate(out, "--model", spec(fake.url, temperature=0.3), *limits) == 2
        assert evaluate(out, "--model", spec(fake.url).replace("openai:m@", "openai:n@"), *limits) == 2
    assert "--out" in capsys.readouterr().err


def test_a_server_with_another_model_cannot_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "e"
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        assert evaluate(out, "--model", f"openai:m@{fake.url}", "--limit", "3") == 0
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:2]))
    with serving("openai", otherwise=speaking(multiplier), model_version="other-002") as fake:
        assert evaluate(out, "--model", f"openai:m@{fake.url}", "--limit", "3") == 2
    words = capsys.readouterr().err
    assert "fake-model-001" in words
    assert "other-002" in words
    assert len(rows(out)) == 2
    with (out / "episodes.jsonl").open("a") as file:  # as if both had answered before
        file.write(lines[2].replace("fake-model-001", "other-002"))
    (out / "evaluation.json").unlink()
    assert evaluate(out, "--model", "openai:m@http://127.0.0.1:9/v1", "--limit", "3") == 2
    assert "two models" in capsys.readouterr().err


def test_tasks_that_do_not_fit_can_be_played_last(tmp_path: Path) -> None:
    """The model has answered in an earlier launch: what is left may be too long, all of it."""
    out, arguments = tmp_path / "e", ["--limit", "12"]
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        assert evaluate(out, "--model", f"openai:m@{fake.url}", *arguments) == 0
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:2]))
    with serving("openai", otherwise=failing(400, "maximum context length is 9 tokens")) as fake:
        assert evaluate(out, "--model", f"openai:m@{fake.url}", *arguments) == 0
    assert sum(row["flaws"].get("too_long", 0) for row in rows(out)) == 30


def test_only_one_process_works_on_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "e"
    code = (
        "import sys, pathlib; from mappa_env.evaluation.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert evaluate(out, "--model", "constant:x", "--limit", "1") == 2
        words = capsys.readouterr().err
        assert f"in use by process {other.pid}" in words
        other.communicate()
    assert evaluate(out, "--model", "constant:x", "--limit", "1") == 0
    with locked(out):
        assert evaluate(out, "--model", "constant:x", "--limit", "1") == 2


def test_an_episode_that_is_there_twice_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e"
    assert evaluate(out, "--model", "constant:x", "--limit", "2") == 0
    path = out / "episodes.jsonl"
    path.write_text(path.read_text() * 2)
    for command in (["leaderboard", str(out)], ["contamination", str(out)]):
        assert main(command) == 2
        words = capsys.readouterr().err
        assert "line 3 is the episode of line 1 again" in words
        assert "remove" in words
    assert evaluate(out, "--model", "constant:x", "--limit", "2") == 2


def test_readers_leave_a_line_alone_that_is_being_written(tmp_path: Path) -> None:
    out = tmp_path / "e"
    assert evaluate(out, "--model", "constant:x", "--limit", "2") == 0
    path = out / "episodes.jsonl"
    path.write_text(path.read_text() + '{"env": "mappa')
    assert main(["leaderboard", str(out)]) == 0
    assert path.read_text().endswith('{"env": "mappa')
    assert evaluate(out, "--model", "constant:x", "--limit", "2") == 0
    assert path.read_text().endswith("}\n")


def test_a_foreign_folder_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("x")
    assert evaluate(tmp_path, "--model", "constant:x", "--limit", "1") == 2
    assert evaluate(tmp_path / "mine", "--model", "constant:x", "--limit", "1") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert "--out" in capsys.readouterr().err


def test_what_a_failed_episode_took_counts(tmp_path: Path) -> None:
    calls = []

    def say(fake: FakeServer, call: Call) -> Any:
        calls.append(call)
        return (failing(400, "odd letters") if len(calls) == 3 else speaking(multiplier))(fake, call)

    with serving("openai", otherwise=say) as fake:
        arguments = ["--model", spec(fake.url), "--limit", "2"]
        assert evaluate(tmp_path / "e", *arguments, concurrency="1") == 2
        assert evaluate(tmp_path / "e", *arguments, concurrency="1") == 0
    found = json.loads((tmp_path / "e" / "evaluation.json").read_text())["environments"][0]
    assert sum(tokens["calls"] for tokens in found["tokens"].values()) == 6
    assert sum(tokens["calls"] for tokens in found["abandoned"].values()) == 3
    assert sum(tokens["dollars"] for tokens in found["abandoned"].values()) == pytest.approx(2 * 1.15)


def test_a_coachs_budget_holds_over_launches_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "e"
    with serving("openai") as coach:
        price = {"input": 100, "output": 100}
        for _ in range(3):
            asked = {"name": f"openai:c@{coach.url}", "price": price, "budget": 3, "max_output_tokens": 64}
            arguments = ["--model", "scripted:expert", "--limit", "30", "--coach", json.dumps(asked)]
            assert evaluate(out, *arguments) == 2
            assert "the budget of $3 is spent" in capsys.readouterr().err
        assert 0 < len(coach.calls) * 0.115 <= 3
        assert len((out / "ledger-of-coach.jsonl").read_text().splitlines()) == len(coach.calls)


def test_a_cut_line_of_abandoned_episodes_is_removed_before_the_next(tmp_path: Path) -> None:
    out, team = tmp_path / "e", ["--model", "scripted:expert", "--limit", "2"]
    assert evaluate(out, *team) == 0
    (out / "evaluation.json").unlink()
    (out / "episodes.jsonl").write_text("")
    (out / FILE).write_bytes(b'{"env": "mappa/Math')
    assert evaluate(out, *team) == 0
    lost = Abandoned(ENV, "t", 0, "why", {"solver_0": Tokens(calls=1)})
    append_abandoned(out, lost)
    assert load_abandoned(out) == [lost]
    (out / "evaluation.json").unlink()
    assert evaluate(out, *team) == 0
