"""Servers that are away: the evaluation says so and ends, and one with passing faults is played through."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import fake_llm as fakes
from fake_chats import multiplier, speaking
from fake_llm import Call, FakeServer, failing, serving
from mappa_env.cli import main
from mappa_env.coach.llm import retries
from mappa_env.coach.llm.completions import Completions
from mappa_env.coach.llm.settings import Calls
from mappa_env.coach.llm.wire import Passing, Unreachable
from mappa_env.evaluation import chat, patience, playing

ENV = "mappa/MathChat-v0"


def evaluate(out: Path, *arguments: str) -> int:
    return main(["eval", ENV, "--sandbox", "null", "--concurrency", "2", "--out", str(out), *arguments])


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def test_an_address_where_nothing_listens_ends_it_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "START_S", 2.0)
    monkeypatch.setattr(retries, "SILENT_S", 0.5)
    url, began = f"http://127.0.0.1:{free_port()}/v1", time.monotonic()
    spec = f"{{name: 'openai:m@{url}', breaker_pause_s: 0.2}}"
    assert evaluate(tmp_path / "e", "--model", spec, "--limit", "40") == 2
    assert time.monotonic() - began < 30
    warning, error = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"mappa-env: warning: openai:m@{url}: connection refused; no answer for ")
    assert f"{url}: connection refused; nothing has answered there for 2 s" in error
    assert "wait_for_server: true" in error
    assert "0 of 40 episodes are kept" in error


@pytest.mark.parametrize("options", ["deadline_s: 1", "wait_for_server: false"])
def test_an_answer_that_may_take_less_ends_it_earlier(options: str, tmp_path: Path) -> None:
    began = time.monotonic()
    spec = f"{{name: 'openai:m@http://127.0.0.1:{free_port()}/v1', {options}}}"
    assert evaluate(tmp_path / "e", "--model", spec, "--limit", "40") == 2
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("waits", [True, False])
def test_a_server_that_is_starting_has_a_while(
    waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default as long as ``START_S``; with the option, until the deadline."""
    monkeypatch.setattr(patience, "START_S", 0.5 if waits else 60.0)
    port = free_port()
    options = {"wait_for_server": True} if waits else {}
    spec = {
        "name": f"openai:m@http://127.0.0.1:{port}/v1",
        "base_s": 0.1,
        "cap_s": 0.5,
        "breaker_pause_s": 0.1,
        **options,
    }
    codes: list[int] = []
    asked = ("--model", json.dumps(spec), "--limit", "3")
    tried = threading.Event()

    class Watched(patience.Patience):
        def pause(self, failure: Passing, since: float, pause_s: float) -> float:
            tried.set()
            return super().pause(failure, since, pause_s)

    monkeypatch.setattr(chat, "Patience", Watched)
    thread = threading.Thread(target=lambda: codes.append(evaluate(tmp_path / "e", *asked)), daemon=True)
    thread.start()
    assert tried.wait(60)
    time.sleep(1)  # longer than the short START_S
    with serving("openai", otherwise=speaking(multiplier), port=port):
        thread.join(60)
    assert codes == [0]


def test_a_server_that_stays_away_later_ends_it_and_the_rest_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up = [True]

    def say(fake: FakeServer, call: Call) -> Any:
        if len(fake.calls) > 9:
            up.clear()
        no_node = failing(503, f"no node, req-{len(fake.calls)}a")
        return (speaking(multiplier) if up else no_node)(fake, call)

    with serving("openai", otherwise=say) as fake:

        def launch(deadline_s: float) -> int:
            quick = f"deadline_s: {deadline_s}, base_s: 0.01, breaker_failures: 1000"
            spec = f"{{name: 'openai:m@{fake.url}', {quick}}}"
            return evaluate(tmp_path / "e", "--model", spec, "--limit", "40")

        assert launch(0.3) == 2
        words, kept = capsys.readouterr().err, len(rows(tmp_path / "e"))
        assert 0 < kept <= 3
        assert "no node" in words
        assert f"{patience.IN_A_ROW} times in a row" in words
        assert f"{kept} of 40 episodes are kept" in words
        fake.otherwise = speaking(multiplier)
        assert launch(60) == 0
    assert len(rows(tmp_path / "e")) == 40


def test_passing_faults_of_all_kinds_end_nothing(tmp_path: Path) -> None:
    faults = [fakes.rate_limited(0.01), failing(500), fakes.cut_off, fakes.html]

    def say(fake: FakeServer, call: Call) -> Any:
        number = len(fake.calls)
        return (faults[number // 3 % 4] if number % 3 else speaking(multiplier))(fake, call)

    with serving("openai", otherwise=say) as fake:
        spec = f"{{name: 'openai:m@{fake.url}', base_s: 0.01, cap_s: 0.05, breaker_failures: 1000}}"
        assert evaluate(tmp_path / "e", "--model", spec, "--limit", "20") == 0
    assert len(rows(tmp_path / "e")) == 20


def test_an_address_that_takes_no_connection_is_told_from_a_slow_answer() -> None:
    """Another protocol, and a host that does not answer at all: nothing was sent, so nothing is billed."""
    with serving("openai") as fake, pytest.raises(Unreachable, match="no secure connection"):
        Completions("m", fake.url.replace("http", "https", 1), Calls()).post({}, time.monotonic() + 10)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        with pytest.raises(Unreachable, match="no connection in time"):
            Completions("m", f"http://127.0.0.1:{port}/v1", Calls()).post({}, time.monotonic() + 1)
        for each in waiting:
            each.close()


def test_a_sandbox_that_stays_away_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def away(plan: Any, job: Any, *more: Any) -> Any:
        asked.append(job)
        raise playing.SandboxAway("the sandbox was unavailable")

    monkeypatch.setattr(playing, "play", away)
    assert evaluate(tmp_path / "e", "--model", "constant:5", "--limit", "40") == 2
    words = capsys.readouterr().err
    assert f"{playing.IN_A_ROW} episodes in a row: the sandbox was unavailable" in words
    assert "0 of 40 episodes are kept" in words
    assert len(asked) <= playing.IN_A_ROW + 1
