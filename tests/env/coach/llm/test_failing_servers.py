"""Servers that fail, stall, lie and limit: a score is right, or there is none."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from typing import Any

import pytest

import fake_llm as fakes
from fake_llm import FakeServer
from llm_coach import KEY, PRICE, Make, evidence, name_of, whole
from mappa_env.cards import Card
from mappa_env.coach.llm.breaker import Breaker
from mappa_env.coach.llm.rejections import PATIENCE
from mappa_env.coach.llm.wire import Passing
from mappa_env.errors import CoachStopped

PASSING: dict[str, fakes.Say] = {
    "rate limited": fakes.rate_limited(0.05),
    "internal error": fakes.failing(500),
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
    assert asked.retries == 2


def test_the_servers_own_wait_is_kept(fake: FakeServer, make: Make, card: Card) -> None:
    fake.script += [fakes.rate_limited(0.7)]
    whole(make().judge(evidence(card)))
    first, second = fake.calls
    assert second.at - first.at >= 0.7


def test_a_stall_ends_with_the_time_limit(fake: FakeServer, make: Make, card: Card) -> None:
    fake.script += [fakes.stalling(30)]
    _, asked = whole(make(timeout_s=3.0).judge(evidence(card)))
    assert asked.calls == 2


def test_a_coach_that_is_closed_keeps_nobody_waiting(fake: FakeServer, make: Make, card: Card) -> None:
    """As when a run is interrupted: the server has asked for patience, and nobody has any."""
    fake.otherwise = fakes.rate_limited(500)
    coach = make(deadline_s=600.0)
    future = coach.judge_later(evidence(card))
    while not fake.calls:
        time.sleep(0.01)
    coach.close()
    with pytest.raises(CoachStopped, match="closed while a call was waiting"):
        future.result(timeout=60)


def test_a_storm_ends_with_the_deadline_and_no_number(fake: FakeServer, make: Make, card: Card) -> None:
    fake.otherwise = fakes.failing(503)
    verdict = make(deadline_s=3.0, breaker_failures=1000).judge(evidence(card))
    assert (verdict.status, verdict.score) == ("error", None)
    assert "503" in verdict.reasoning


@pytest.mark.parametrize("say", [fakes.out_of_tokens, fakes.out_of_range, fakes.saying("I give it a 9")])
def test_what_is_no_verdict_is_asked_again_once(
    fake: FakeServer, make: Make, card: Card, say: fakes.Say
) -> None:
    fake.script += [say]
    _, asked = whole(make().judge(evidence(card)))
    assert (asked.calls, asked.retries) == (2, 0)
    assert "could not be used" in fake.calls[1].text
    fake.otherwise = say
    verdict = make().judge(evidence(card, "plan: 3"))
    assert (verdict.status, verdict.score) == ("abstain", None)
    assert len(fake.calls) == 4


@pytest.mark.parametrize("waits", [True, False])
def test_a_server_that_is_down_is_named_without_the_librarys_words(
    fake: FakeServer, make: Make, card: Card, waits: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    fake.url = f"http://127.0.0.1:{port}" + ("/v1" if fake.kind == "openai" else "")
    began = time.monotonic()
    coach = make(deadline_s=2.0 if waits else 60.0, wait_for_server=waits, price=PRICE)
    verdict = coach.judge(evidence(card))
    assert time.monotonic() - began < 30
    assert (verdict.status, verdict.reasoning) == ("error", f"{name_of(fake)}: connection refused")
    assert verdict.asked is not None
    assert (verdict.asked.calls > 1) is waits
    assert verdict.asked.retries == verdict.asked.calls - 1
    assert coach.client is not None
    assert coach.client.budget.spent == 0.0


def test_an_empty_answer_is_no_score(fake: FakeServer, make: Make, card: Card) -> None:
    fake.otherwise = fakes.empty
    verdict = make(deadline_s=1.0, breaker_failures=1000).judge(evidence(card))
    assert verdict.status in ("abstain", "error")
    assert verdict.score is None


@pytest.mark.parametrize("say", [fakes.blocked, fakes.refusing])
def test_what_is_refused_is_not_asked_again(fake: FakeServer, make: Make, card: Card, say: fakes.Say) -> None:
    fake.script += [say]
    verdict = make().judge(evidence(card))
    assert (verdict.status, verdict.score, len(fake.calls)) == ("abstain", None, 1)
    assert verdict.asked is not None
    assert verdict.asked.latency_s > 0
    assert verdict.asked.model_version == fake.model_version


LONG = {
    "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "openai": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
}


def test_evidence_that_does_not_fit_is_not_judged_and_the_run_goes_on(
    fake: FakeServer, make: Make, card: Card
) -> None:
    fake.script += [fakes.ok, *[fakes.failing(400, LONG[fake.kind])] * 9]
    coach = make()
    assert coach.judge(evidence(card)).score == 7.5
    for i in range(9):
        verdict = coach.judge(evidence(card, f"plan: {i}"))
        assert (verdict.status, verdict.score) == ("abstain", None)
        assert "answered 400" in verdict.reasoning
        assert verdict.asked is not None
        assert (verdict.asked.calls, verdict.asked.prompt, verdict.asked.cost or 0.0) == (1, 0, 0.0)
    assert coach.judge(evidence(card, "plan: last")).score == 7.5


def test_a_model_that_no_evidence_fits_stops_the_run(fake: FakeServer, make: Make, card: Card) -> None:
    fake.otherwise = fakes.failing(400, LONG[fake.kind] + KEY)
    coach = make()
    for i in range(PATIENCE - 1):
        assert coach.judge(evidence(card, f"plan: {i}")).status == "abstain"
    with pytest.raises(CoachStopped, match="lower the coach's max_output_tokens") as caught:
        coach.judge(evidence(card, "plan: last"))
    assert KEY not in repr(caught.value) + str(caught.value.__cause__) + str(caught.value.__context__)
    assert len(fake.calls) == PATIENCE


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_cannot_be_fixed_stops_the_run(fake: FakeServer, make: Make, card: Card, status: int) -> None:
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
    fakes.rate_limited(0.01),
    fakes.failing(503),
    fakes.stalling(3.0),
    fakes.cut_off,
    fakes.truncated,
    fakes.html,
    fakes.empty,
    fakes.blocked,
    fakes.refusing,
    fakes.out_of_tokens,
    fakes.out_of_range,
)


@pytest.mark.slow
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


@pytest.mark.slow
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
    coach = make(limits={"requests": 12}, deadline_s=4.0)  # one at once, then one in five seconds
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
    assert coach.client is not None
    assert not coach.client.breaker.closed
    assert len(fake.calls) <= 20 + 5  # those under way when it opened, then one per pause


def test_a_breaker_closes_when_the_server_is_back(fake: FakeServer, make: Make, card: Card) -> None:
    """Nobody but the one that tries may ask, and somebody has to try."""
    fake.script += [fakes.failing(503)] * 6
    coach = make(breaker_failures=3, breaker_pause_s=0.3, limits={"requests": 1e6, "tokens": 1e9})
    verdicts = coach.judge_many([evidence(card, f"plan: {i}") for i in range(6)])
    assert {verdict.status for verdict in verdicts} == {"ok"}
    assert coach.client is not None
    assert coach.client.breaker.closed


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
        with pytest.raises(Passing, match="breaker is open"), breaker.call(time.monotonic()):
            pass  # pragma: no cover
        assert not breaker.closed
    assert breaker.closed
