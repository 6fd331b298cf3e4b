"""What calls cost, what is kept of them, and replays without a server."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import fake_llm as fakes
from fake_llm import FakeServer
from llm_coach import PRICE, Make, evidence, whole
from mappa_env.cards import Card
from mappa_env.coach import make_coach
from mappa_env.errors import CoachError, CoachStopped, CoachWarning, OptionError


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
    with pytest.raises(CoachStopped, match="budget"):  # a resumed run continues the ledger
        make(budget=0.06, price=PRICE, ledger=tmp_path / "ledger.jsonl", cap_s=1.0).judge(evidence(card))
    assert len(fake.calls) == calls


def test_a_line_that_a_crash_cut_short_harms_no_other(
    fake: FakeServer, make: Make, card: Card, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"cost": 0.5}\n{"cost": 0.25, "promp')
    with pytest.warns(CoachWarning, match=r"ledger\.jsonl line 2 .*promp"):
        coach = make(price=PRICE, ledger=ledger)
    coach.judge(evidence(card))
    assert coach.client is not None
    assert (coach.client.budget.spent, coach.client.budget.calls) == (pytest.approx(0.5025), 2)
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
    coach = make(cache=path, deadline_s=3.0)
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
    with pytest.raises(CoachStopped, match="differs from the recorded one"):
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
    with pytest.raises(CoachStopped, match="cannot give fresh verdicts"):
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
