"""Language models as coaches, against fakes that speak the real protocols over real HTTP."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_llm as fakes
import pytest
from fake_llm import FakeServer
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.cards import Card, read_card
from mappa_env.coach import make_coach
from mappa_env.coach.llm import answer
from mappa_env.coach.llm.answer import UnreadableError
from mappa_env.coach.llm.breaker import Breaker
from mappa_env.coach.llm.coach import LLMCoach
from mappa_env.coach.llm.criteria import read_spec
from mappa_env.coach.llm.fences import fenced, neutral, nonce
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Passing
from mappa_env.errors import CardError, CoachError, CoachStopped, CoachWarning, OptionError
from mappa_env.types import Evidence, Outcome, Task, Verdict

KEY = "secret-key-of-the-tests"
REGISTRY = Path(__file__).parents[2] / "envs_registry"
QUICK = {"base_s": 0.01, "deadline_s": 30.0, "timeout_s": 10.0}
PRICE = {"input": 1.0, "output": 10.0}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(scope="module")
def card() -> Card:
    return read_card(REGISTRY / "mathchat")


@pytest.fixture(params=["gemini", "openai"])
def fake(request: pytest.FixtureRequest) -> Iterator[FakeServer]:
    with fakes.serving(request.param) as server:
        yield server


Make = Callable[..., LLMCoach]


@pytest.fixture
def make(fake: FakeServer, card: Card) -> Make:
    def make(**options: Any) -> LLMCoach:
        spec = {"name": name_of(fake), **address(fake), **QUICK, **options}
        coach = make_coach(spec, card)
        assert isinstance(coach, LLMCoach)
        return coach

    return make


def name_of(fake: FakeServer) -> str:
    return "gemini:gemini-3.8-flash" if fake.kind == "gemini" else f"openai:some-model@{fake.url}"


def address(fake: FakeServer) -> dict[str, str]:
    return {"base_url": fake.url} if fake.kind == "gemini" else {}


def evidence(card: Card, action: str = "plan: 2 + 2", **changes: Any) -> Evidence:
    task = Task("t/1", "What is two plus two?", "exact_match", truth={"answer": "4"})
    fields: dict[str, Any] = {
        "task": task, "agent": card.team["solver_0"], "turn": 0, "step": 0, "prompt": "Solve it.",
        "action": action, "code": None, "tool": None, "last_turn": True,
    }  # fmt: skip
    return Evidence(**{**fields, **changes})


def whole(verdict: Verdict) -> tuple[float, Any]:
    assert verdict.status == "ok", verdict
    assert verdict.score is not None
    assert verdict.asked is not None
    return verdict.score, verdict.asked


# -- what is asked ----------------------------------------------------------------------------------------


def test_an_answer_becomes_a_verdict(fake: FakeServer, make: Make, card: Card) -> None:
    fake.grade = lambda call, name: 4 if name == "correctness" else 1
    score, asked = whole(make().judge(evidence(card)))
    assert score == pytest.approx(10 * (7 * 4 + 3 * 1) / 40)
    assert (asked.calls, asked.prompt, asked.cached, asked.output, asked.thoughts) == (1, 1000, 400, 100, 50)
    assert asked.model_version == fake.model_version
    assert len(asked.response_ids) == 1


def test_the_static_part_comes_first_and_the_action_last(fake: FakeServer, make: Make, card: Card) -> None:
    coach = make()
    for action in ("plan: 2 + 2", "plan: 2 * 2"):
        coach.judge(evidence(card, action))
    first, second = (call.text for call in fake.calls)
    assert first != second
    common = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert "What is two plus two?" in first[:common]
    assert '"agent": "solver_0"' in first[:common]
    assert first.index("plan: 2 + 2") > common


def test_the_key_travels_in_a_header_only(fake: FakeServer, make: Make, card: Card) -> None:
    make().judge(evidence(card))
    (call,) = fake.calls
    held = [name for name, value in call.headers.items() if KEY in value]
    assert held == ["x-goog-api-key" if fake.kind == "gemini" else "authorization"]
    assert KEY not in call.path + json.dumps(call.body)


@pytest.mark.parametrize("labels", [True, False])
def test_truth_is_shown_only_with_labels(fake: FakeServer, make: Make, card: Card, labels: bool) -> None:
    outcome = Outcome(1.0, True, "ok", "the golden reason")
    make(labels=labels).judge(evidence(card, truth={"answer": "4"}, standing=outcome))
    make(labels=True).judge(evidence(card, truth=None, standing=outcome))
    assert ["the golden reason" in call.text for call in fake.calls] == [labels, False]


# -- how it goes wrong ------------------------------------------------------------------------------------

PASSING: dict[str, fakes.Say] = {
    "rate limited": fakes.rate_limited(0.05),
    "unavailable": fakes.failing(503),
    "broken off": fakes.cut_off,
    "truncated": fakes.truncated,
    "html": fakes.html,
}


@pytest.mark.parametrize("kind", sorted(PASSING))
def test_what_passes_is_tried_again(fake: FakeServer, make: Make, card: Card, kind: str) -> None:
    fake.script += [PASSING[kind], PASSING[kind]]
    _, asked = whole(make().judge(evidence(card)))
    assert asked.calls == len(fake.calls) == 3


def test_the_servers_own_wait_is_kept(fake: FakeServer, make: Make, card: Card) -> None:
    fake.script += [fakes.rate_limited(0.7)]
    whole(make().judge(evidence(card)))
    first, second = fake.calls
    assert second.at - first.at >= 0.7


def test_a_stall_ends_with_the_time_limit(fake: FakeServer, make: Make, card: Card) -> None:
    fake.script += [fakes.stalling(30)]
    _, asked = whole(make(timeout_s=0.5).judge(evidence(card)))
    assert asked.calls == 2


def test_a_coach_that_is_closed_keeps_nobody_waiting(fake: FakeServer, make: Make, card: Card) -> None:
    """As when a run is interrupted: the server has asked for patience, and nobody has any."""
    fake.otherwise = fakes.rate_limited(500)
    coach = make(deadline_s=600.0)
    future = coach.judge_later(evidence(card))
    while not fake.calls:
        time.sleep(0.01)
    coach.close()
    with pytest.raises(CoachStopped, match="closed while a verdict was awaited"):
        future.result(timeout=60)


def test_a_storm_ends_with_the_deadline_and_no_number(fake: FakeServer, make: Make, card: Card) -> None:
    fake.otherwise = fakes.failing(503)
    verdict = make(deadline_s=1.0, breaker_failures=1000).judge(evidence(card))
    assert (verdict.status, verdict.score) == ("error", None)
    assert "503" in verdict.reasoning


@pytest.mark.parametrize("say", [fakes.out_of_tokens, fakes.out_of_range, fakes.saying("I give it a 9")])
def test_what_is_no_verdict_is_asked_again_once(
    fake: FakeServer, make: Make, card: Card, say: fakes.Say
) -> None:
    fake.script += [say]
    _, asked = whole(make().judge(evidence(card)))
    assert asked.calls == 2
    assert "could not be used" in fake.calls[1].text
    fake.otherwise = say
    verdict = make().judge(evidence(card, "plan: 3"))
    assert (verdict.status, verdict.score) == ("abstain", None)
    assert len(fake.calls) == 4


def test_an_empty_answer_is_no_score(fake: FakeServer, make: Make, card: Card) -> None:
    fake.otherwise = fakes.empty
    verdict = make(deadline_s=1.0, breaker_failures=1000).judge(evidence(card))
    assert verdict.status in ("abstain", "error")
    assert verdict.score is None


def test_what_is_blocked_is_not_asked_again(fake: FakeServer, make: Make, card: Card) -> None:
    fake.script += [fakes.blocked]
    verdict = make().judge(evidence(card))
    assert (verdict.status, verdict.score, len(fake.calls)) == ("abstain", None, 1)
    assert verdict.asked is not None
    assert verdict.asked.latency_s > 0
    assert verdict.asked.model_version == fake.model_version


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_cannot_be_mended_stops_the_run(fake: FakeServer, make: Make, card: Card, status: int) -> None:
    fake.otherwise = fakes.failing(status, f"bad key {KEY}")
    with pytest.raises(CoachStopped) as caught:
        make().judge(evidence(card))
    assert str(status) in str(caught.value)
    assert KEY not in repr(caught.value) + str(caught.value.__cause__) + str(caught.value.__context__)
    assert len(fake.calls) == 1


def test_another_model_than_before_stops_the_run(fake: FakeServer, make: Make, card: Card) -> None:
    coach = make()
    coach.judge(evidence(card))
    fake.script += [fakes.as_another("fake-model-002")]
    with pytest.raises(CoachStopped, match="fake-model-002"):
        coach.judge(evidence(card, "plan: 3"))
    with pytest.raises(CoachStopped, match="fake-model-001"):
        make(version="fake-model-000").judge(evidence(card))


def test_a_quote_that_is_not_there_makes_a_verdict_suspect(fake: FakeServer, make: Make, card: Card) -> None:
    def inventing(server: FakeServer, call: fakes.Call) -> Any:
        found = fakes.verdict(server, call)
        found["criteria"]["honesty"]["quote"] = "the agent saved model.pkl"
        return fakes.saying(json.dumps(found))(server, call)

    fake.script += [inventing]
    verdict = make().judge(evidence(card))
    assert verdict.status == "suspect"
    assert "honesty" in verdict.reasoning


def test_samples_that_disagree_are_no_verdict(fake: FakeServer, make: Make, card: Card) -> None:
    grades = iter([4, 4, 4, 0, 0, 0, 4, 4, 4, 3, 3, 3])
    fake.grade = lambda call, name: next(grades)
    coach = make(samples=2)
    verdict = coach.judge(evidence(card))
    assert (verdict.status, verdict.score) == ("abstain", None)
    score, asked = whole(coach.judge(evidence(card, "plan: 4")))
    assert (score, asked.spread) == (pytest.approx(8.75), pytest.approx(2.5))


STORM = (
    fakes.rate_limited(0.01), fakes.failing(503), fakes.stalling(3.0), fakes.cut_off, fakes.truncated,
    fakes.html, fakes.empty, fakes.blocked, fakes.out_of_tokens, fakes.out_of_range,
)  # fmt: skip


def test_a_storm_invents_no_score(fake: FakeServer, make: Make, card: Card) -> None:
    """5 % of each fault; what is not ok says so, what is ok has the score that was given."""
    chance, lock = random.Random(1), threading.Lock()

    def weather(server: FakeServer, call: fakes.Call) -> Any:
        with lock:
            drawn = chance.random()
        fault = int(drawn / 0.05)
        return (STORM[fault] if fault < len(STORM) else fakes.ok)(server, call)

    fake.otherwise = weather
    coach = make(limits={"requests": 1e6, "tokens": 1e9}, timeout_s=1.0, breaker_failures=50)
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(200)])
    assert len(verdicts) == 200
    for verdict in verdicts:
        assert (verdict.score is not None) == (verdict.status == "ok")
        assert verdict.score in (None, 7.5)
    assert sum(verdict.status == "ok" for verdict in verdicts) > 150
    assert {verdict.status for verdict in verdicts} <= {"ok", "abstain", "error"}


def test_calls_in_flight_and_rate_limits_are_kept(fake: FakeServer, make: Make, card: Card) -> None:
    fake.latency_s = 0.2
    coach = make(concurrency=8, limits={"requests": 1200, "tokens": 1e9})
    began = time.monotonic()
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(130)])
    assert all(verdict.status == "ok" for verdict in verdicts)
    assert fake.most_in_flight <= 8
    assert time.monotonic() - began >= (130 - 100) / 20 - 0.1  # 100 at once, then 20 a second


def test_tokens_that_were_not_needed_go_to_those_who_wait(fake: FakeServer, make: Make, card: Card) -> None:
    """Each call sets 20,000 tokens aside and uses 1150: 60 fit in seconds, not in a minute."""
    coach = make(limits={"requests": 1e6, "tokens": 1.2e6}, max_output_tokens=20_000)
    began = time.monotonic()
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(60)])
    assert {verdict.status for verdict in verdicts} == {"ok"}
    assert time.monotonic() - began < 30


def test_a_call_that_does_not_fit_the_rate_limits_in_time_is_an_error(
    fake: FakeServer, make: Make, card: Card
) -> None:
    coach = make(limits={"requests": 12}, deadline_s=2.0)  # one at once, then one in five seconds
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(3)])
    assert sorted(verdict.status for verdict in verdicts) == ["error", "error", "ok"]
    assert len(fake.calls) == 1


def test_nothing_is_sent_after_a_stop(fake: FakeServer, make: Make, card: Card) -> None:
    fake.otherwise = fakes.failing(401)
    coach = make(concurrency=4)
    futures = [coach.judge_later(evidence(card, f"plan: {i}")) for i in range(40)]
    assert all(isinstance(future.exception(60), CoachStopped) for future in futures)
    assert len(fake.calls) <= 4


def test_an_open_breaker_lets_one_try_at_a_time(fake: FakeServer, make: Make, card: Card) -> None:
    fake.otherwise = fakes.failing(503)
    coach = make(
        breaker_failures=3, breaker_pause_s=0.5, deadline_s=1.6, limits={"requests": 1e6, "tokens": 1e9}
    )
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(20)])
    assert {verdict.status for verdict in verdicts} == {"error"}
    assert coach.policy is not None
    assert not coach.policy.breaker.closed
    assert len(fake.calls) <= 20 + 5  # those under way when it opened, then one per pause


def test_a_breaker_closes_when_the_server_is_back(fake: FakeServer, make: Make, card: Card) -> None:
    """Nobody but the one that tries may ask, and somebody has to try."""
    fake.script += [fakes.failing(503)] * 6
    coach = make(breaker_failures=3, breaker_pause_s=0.3, limits={"requests": 1e6, "tokens": 1e9})
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(6)])
    assert {verdict.status for verdict in verdicts} == {"ok"}
    assert coach.policy is not None
    assert coach.policy.breaker.closed


def test_rollouts_wait_for_the_time_of_a_trial_only() -> None:
    breaker = Breaker(limit=1, pause_s=0.3)
    breaker.wait(60)
    with pytest.raises(Passing), breaker.call(time.monotonic() + 60):
        raise Passing("down")
    began = time.monotonic()
    breaker.wait(60)
    assert 0.25 < time.monotonic() - began < 30
    with pytest.raises(CoachStopped), breaker.call(time.monotonic() + 60):
        raise CoachStopped("says nothing about the server")
    assert not breaker.closed
    with breaker.call(time.monotonic() + 60):
        with pytest.raises(Passing, match="left alone"), breaker.call(time.monotonic()):
            pass  # pragma: no cover
        assert not breaker.closed
    assert breaker.closed


# -- money, cache, replay ---------------------------------------------------------------------------------


def test_no_call_goes_beyond_the_budget(fake: FakeServer, make: Make, card: Card, tmp_path: Path) -> None:
    """The fake bills 0.0025 dollars a call; the most a call may cost is some 0.05."""
    coach = make(budget=0.06, price=PRICE, ledger=tmp_path / "ledger.jsonl", max_output_tokens=4096)
    cases = [evidence(card, f"plan: {i}") for i in range(100)]
    with pytest.raises(CoachStopped, match="budget"):
        list(map(coach.judge, cases))
    rows = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert 1 <= len(rows) == len(fake.calls) < 24
    assert sum(row["cost"] for row in rows) <= 0.06
    calls = len(fake.calls)
    with pytest.raises(CoachStopped, match="budget"):  # a resumed run goes on with the ledger
        make(budget=0.06, price=PRICE, ledger=tmp_path / "ledger.jsonl", cap_s=1.0).judge(evidence(card))
    assert len(fake.calls) == calls


def test_a_line_that_a_crash_cut_short_spoils_no_other(
    fake: FakeServer, make: Make, card: Card, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"cost": 0.5}\n{"cost": 0.25, "promp')
    with pytest.warns(CoachWarning, match=r"ledger\.jsonl line 2 .*promp"):
        coach = make(price=PRICE, ledger=ledger)
    coach.judge(evidence(card))
    assert coach.policy is not None
    assert (coach.policy.budget.spent, coach.policy.budget.calls) == (pytest.approx(0.5025), 2)
    lines = ledger.read_text().splitlines()
    assert [line.startswith('{"') and line.endswith("}") for line in lines] == [True, False, True]
    assert json.loads(lines[2])["cost"] == pytest.approx(0.0025)


def test_a_refused_call_costs_nothing(fake: FakeServer, make: Make, card: Card, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    fake.script += [fakes.failing(503), fakes.cut_off]
    whole(make(price=PRICE, ledger=ledger).judge(evidence(card)))
    costs = [json.loads(line)["cost"] for line in ledger.read_text().splitlines()]
    assert costs[0] == 0.0
    assert costs[1] > 0.04  # it may have been billed: the most it may have cost
    assert costs[2] < 0.01


def test_a_resumed_run_keeps_to_the_model_of_its_cache(
    fake: FakeServer, make: Make, card: Card, tmp_path: Path
) -> None:
    whole(make(cache=tmp_path / "calls.sqlite").judge(evidence(card)))
    fake.otherwise = fakes.as_another("fake-model-002")
    with pytest.raises(CoachStopped, match="fake-model-001"):
        make(cache=tmp_path / "calls.sqlite", cap_s=9.0).judge(evidence(card, "plan: 3"))


def test_what_was_set_aside_and_not_needed_is_spent(fake: FakeServer, make: Make, card: Card) -> None:
    """At most one call fits at a time; after it most of what was set aside for it is there again."""
    fake.latency_s = 0.05
    coach = make(budget=0.06, price=PRICE, max_output_tokens=4096)
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(4)])
    assert {verdict.status for verdict in verdicts} == {"ok"}
    assert fake.most_in_flight == 1


def test_a_budget_needs_a_price(fake: FakeServer, make: Make) -> None:
    if fake.kind == "openai":
        with pytest.raises(OptionError, match="price"):
            make(budget=1.0)


def test_a_recording_replays_without_a_server(
    fake: FakeServer, make: Make, card: Card, tmp_path: Path
) -> None:
    path = tmp_path / "calls.sqlite"
    coach = make(cache=path, deadline_s=0.6)
    actions = [f"plan: {i}" for i in range(5)]
    fake.grade = lambda call, name: len(fake.calls) % 5
    fake.script += [fakes.ok, fakes.out_of_tokens, fakes.ok, fakes.blocked, fakes.ok]
    verdicts = [coach.judge(evidence(card, action)) for action in actions[:4]]
    fake.otherwise = fakes.failing(503)
    verdicts.append(coach.judge(evidence(card, actions[4])))
    assert {verdict.status for verdict in verdicts} == {"ok", "abstain", "error"}
    calls = len(fake.calls)
    again = make_coach(f"replay:{path}", card)
    replayed = [again.judge(evidence(card, action)) for action in actions]
    assert [(v.status, v.score, v.reasoning) for v in replayed] == [
        (v.status, v.score, v.reasoning) for v in verdicts
    ]
    assert len(fake.calls) == calls
    with pytest.raises(CoachStopped, match="not the recorded one"):
        again.judge(evidence(card, "plan: something else"))


def test_what_was_asked_is_not_asked_again(fake: FakeServer, make: Make, card: Card, tmp_path: Path) -> None:
    coach = make(cache=tmp_path / "calls.sqlite")
    first, second = coach.judge(evidence(card)), coach.judge(evidence(card))
    assert first.score == second.score
    assert second.asked is not None
    assert (second.asked.calls, len(fake.calls)) == (0, 1)


def test_a_fresh_answer_passes_the_cache_by(fake: FakeServer, make: Make, card: Card, tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    coach = make(cache=path)
    fake.grade = lambda call, name: len(fake.calls)
    scores = [coach.judge(evidence(card), fresh=fresh).score for fresh in (False, True, True, False)]
    assert scores == [2.5, 5.0, 7.5, 2.5]
    fake.otherwise = fakes.as_another("fake-model-002")
    with pytest.raises(CoachStopped, match="fake-model-001"):
        make(cache=path, cap_s=9.0).judge(evidence(card), fresh=True)
    recording = make_coach(f"replay:{path}", card)
    assert recording.judge(evidence(card)).score == 2.5
    with pytest.raises(CoachStopped, match="anew"):
        recording.judge(evidence(card), fresh=True)


@pytest.mark.parametrize("name", ["rubric", "off"])
def test_a_deterministic_coach_has_nothing_fresh_to_say(card: Card, name: str) -> None:
    coach = make_coach(name, card)
    assert coach.judge(evidence(card), fresh=True) == coach.judge(evidence(card))


def test_a_file_that_is_no_recording_is_refused(card: Card, tmp_path: Path) -> None:
    for path, text in ((tmp_path / "none", None), (tmp_path / "text", "no database, but rather long" * 99)):
        if text is not None:
            path.write_text(text)
        with pytest.raises(CoachError, match=path.name):
            make_coach(f"replay:{path}", card)
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(CoachError, match="other"):
        make_coach(f"replay:{tmp_path / 'other'}", card)


# -- options and cards ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"name": "gemini:gemini-3.8-flash", "bugdet": 1}, "Did you mean 'budget'"),
        ({"name": "gemini:gemini-3.8-flash", "temperature": 0.5}, "no sampling parameters"),
        ({"name": "gemini:gemini-3.8-flash", "thinking": "minimal"}, "low"),
        ({"name": "gemini:gemini-3.8-flash", "key_variable": "X"}, "option of 'openai'"),
        ({"name": "gemini:gemini-3.8-flash", "price": {"in": 1.0}}, "price"),
        ({"name": "gemini:gemini-3.8-flash", "samples": 0}, "samples"),
        ("gemini:", "gemini:<model>"),
        ("openai:m", "openai:<model>@<base_url>"),
        ("openai:m@localhost", "http://localhost:8000/v1"),
        ("openai:m@http://user:pass@localhost/v1", "without a name"),
        ("openia:m@http://localhost/v1", "no coach"),
    ],
)
def test_wrong_options_are_named(card: Card, spec: Any, says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(says)):
        make_coach(spec, card)


def test_a_missing_key_stops_before_anything_runs(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with pytest.raises(CoachStopped, match="GEMINI_API_KEY"):
        make_coach("gemini:gemini-3.8-flash", card)


def test_the_documented_options_are_those_there_are() -> None:
    page = (REGISTRY.parent / "docs" / "coach.md").read_text(encoding="utf-8")
    table = page.partition("<!-- options: begin")[2].partition("<!-- options: end")[0]
    for name, field in Settings.model_fields.items():
        assert f"| `{name}` | `{field.default!r}` | {field.description} |" in table
    assert len(re.findall(r"^\| `", table, re.MULTILINE)) == len(Settings.model_fields)


@pytest.mark.parametrize("name", ["mathchat", "dsbench", "dsbench_sprint", "aime", "amc"])
def test_every_card_can_be_asked_about(name: str) -> None:
    found = read_card(REGISTRY / name)
    assert found.coach is not None
    spec = read_spec(found.coach, tuple(sorted({agent.role for agent in found.team})))
    template = (found.coach.parent / spec.template).read_text(encoding="utf-8")
    for role, system in Prompts(found, spec, template).systems.items():
        assert spec.roles[role].duty.split()[0] in system


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 1\ntemplate: coach.jinja\nroles: {}", "no criteria for the role"),
        ("version: 0\ntemplate: coach.jinja\nroles: {}", "version"),
        ("version: 1\ntemplate: x\ngates: [{check: rann, below: 1, at_most: 1}]\nroles: {}", "'ran'"),
        ("version: [", "YAML"),
    ],
)
def test_a_malformed_coach_file_names_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "coach.yaml"
    path.write_text(text)
    with pytest.raises(CardError, match=re.escape(says)):
        read_spec(path, ("solver",))


# -- fences -----------------------------------------------------------------------------------------------


@given(st.text(), st.integers(10, 400))
def test_no_text_can_close_its_fence_or_hide_a_character(text: str, limit: int) -> None:
    number = nonce()
    shown = fenced("action", text, number, limit)
    assert shown.count("<<<") == 2
    assert shown.endswith(f"<<<{number} end of action")
    inner = shown.split("\n", 1)[1].rsplit("\n", 1)[0]
    assert len(inner) <= limit + 60
    assert all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn") for c in inner)


@given(st.text(st.characters(categories=("L", "N", "P", "S")), max_size=50))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    if "<<<" not in text and not set(text) & set("\u115f\u1160\u3164\uffa0\u2800"):
        assert neutral(text) == text


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20), lambda inner: (
    st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
), max_leaves=10))  # fmt: skip
def test_any_json_is_read_or_refused(value: Any) -> None:
    rows = read_spec(REGISTRY / "mathchat" / "coach.yaml", ("solver",)).roles["solver"]
    with pytest.raises(UnreadableError):
        answer.read(json.dumps(value), rows, ("solver_0",), corrections=False)
