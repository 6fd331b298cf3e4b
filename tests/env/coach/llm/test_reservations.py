"""A process that is killed leaves no call uncounted."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from fake_chats import speaking
from fake_llm import serving, stalling
from mappa_env.cli import main
from mappa_env.coach.llm.budget import Budget
from mappa_env.coach.llm.models import Price
from mappa_env.coach.llm.reservations import Reservations
from mappa_env.coach.llm.wire import Request, Usage
from mappa_env.errors import CoachError, CoachWarning

PRICE = Price(input=1e6, output=0.0)  # a dollar for each byte of a prompt
REQUEST = Request("12345", (), {})
DYING = """
import contextlib, os, pathlib, signal, sys
from mappa_env.coach.llm.budget import Budget
from mappa_env.coach.llm.models import Price
from mappa_env.coach.llm.wire import Request, Usage
budget = Budget(None, Price(input=1e6, output=0.0), pathlib.Path(sys.argv[1]))
with budget.bill(Request("12", (), {}), 1e18) as bill:
    budget.send(bill)
    bill.usage = Usage(prompt=1)
with contextlib.ExitStack() as calls:
    for _ in range(int(sys.argv[2])):
        budget.send(calls.enter_context(budget.bill(Request("12345", (), {}), 1e18)))
    calls.enter_context(budget.bill(Request("1234567", (), {}), 1e18))  # it waits, and is not sent
    print("sent", flush=True)
    sys.stdin.read()
"""

OPENING = """
import pathlib, sys
from mappa_env.coach.llm.budget import Budget
sys.stdin.read()
Budget(None, None, pathlib.Path(sys.argv[1]))
"""


def killed(ledger: Path, calls: int) -> None:
    """A process that is killed with so many calls of five dollars under way, after one of a dollar."""
    arguments = [sys.executable, "-c", DYING, str(ledger), str(calls)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sent\n"
        with warnings.catch_warnings():  # while it lives, its calls are its own
            warnings.simplefilter("error")
            assert Budget(None, PRICE, ledger).spent == 1.0
        process.kill()


def lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def open_files(folder: Path) -> list[Path]:
    return list(folder.glob(".*.open"))


def test_calls_in_flight_at_a_kill_count_at_their_most_and_once(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    killed(ledger, 3)
    with pytest.warns(CoachWarning, match=r"3 calls were in flight .* \$15\.0000"):
        budget = Budget(None, PRICE, ledger)
    assert (budget.spent, budget.calls) == (16.0, 4)
    assert [(row["cost"], row["known"]) for row in lines(ledger)] == [(1.0, True)] + [(5.0, False)] * 3
    assert open_files(tmp_path) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Budget(None, PRICE, ledger).spent == 16.0


def test_a_kill_while_they_are_booked_counts_none_twice(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    killed(ledger, 3)
    (left,) = open_files(tmp_path)
    before = left.read_bytes()
    with pytest.warns(CoachWarning, match="3 calls"):
        Budget(None, PRICE, ledger)
    booked = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(booked[:2]) + booked[2][:20])
    left.write_bytes(before + b'{"id": "cut sho')
    with pytest.warns(CoachWarning) as said:
        budget = Budget(None, PRICE, ledger)
    assert "2 calls were in flight" in str(said[-1].message)
    assert (budget.spent, budget.calls) == (16.0, 4)


def test_a_call_is_written_before_it_is_sent_and_leaves_nothing_when_settled(tmp_path: Path) -> None:
    ledger = tmp_path / "new" / "ledger.jsonl"
    budget = Budget(None, PRICE, ledger)
    with budget.bill(REQUEST, 1e18) as bill:
        assert not ledger.parent.exists()
        budget.send(bill)
        (path,) = open_files(ledger.parent)
        assert json.loads(path.read_text()) == {"id": bill.call, "most": 5.0}
        bill.usage = Usage(prompt=2)
    assert [(row["cost"], row["id"]) for row in lines(ledger)] == [(2.0, bill.call)]
    del budget
    assert open_files(ledger.parent) == []


def test_a_call_that_cannot_be_written_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    budget = Budget(None, PRICE, tmp_path / "file" / "ledger.jsonl")
    with pytest.raises(OSError, match="file"), budget.bill(REQUEST, 1e18) as bill:
        budget.send(bill)
    assert not bill.made


def test_the_file_does_not_grow_with_the_calls(tmp_path: Path) -> None:
    budget = Budget(None, PRICE, tmp_path / "ledger.jsonl")
    sizes = []
    for _ in range(3000):
        with budget.bill(REQUEST, 1e18) as bill:
            budget.send(bill)
            bill.usage = Usage()
        sizes.append(open_files(tmp_path)[0].stat().st_size)
    assert max(sizes) < 70_000
    assert len(lines(tmp_path / "ledger.jsonl")) == 3000


def test_calls_in_flight_are_found_whatever_the_name_of_the_ledger(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger[1]*.jsonl"
    run = [sys.executable, "-c", DYING, str(ledger), "1"]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    with pytest.warns(CoachWarning, match="1 calls were in flight"):
        assert Budget(None, PRICE, ledger).calls == 2


def test_a_fork_takes_no_call_of_its_parent_away(tmp_path: Path) -> None:
    """It has a copy of the object, which it drops or fills when it ends."""
    mine = Reservations(tmp_path / "ledger.jsonl")
    child = os.fork()
    if child == 0:
        for _ in range(2000):
            mine.settle(mine.enter(1.0))
        del mine
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    mine.enter(7.0)
    (path,) = tmp_path.glob(".ledger.jsonl.*.open")
    assert json.loads(path.read_text().splitlines()[-1])["most"] == 7.0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".ledger.jsonl.0.open").write_text("{}\n")
    with pytest.raises(CoachError, match=r"\.ledger\.jsonl\.0\.open holds the calls of a process"):
        Budget(None, PRICE, tmp_path / "ledger.jsonl")


def test_a_killed_evaluation_pays_for_the_calls_that_it_had_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e"
    with serving("openai", otherwise=stalling(60.0)) as fake:
        spec = {"name": f"openai:m@{fake.url}", "price": {"input": 1.0, "output": 1.0}}
        arguments = ["eval", "mappa/MathChat-v0", "--sandbox", "null", "--limit", "4", "--out", str(out)]
        arguments += ["--model", json.dumps(spec), "--concurrency", "3"]
        process = subprocess.Popen([sys.executable, "-m", "mappa_env.cli", *arguments])
        while len(fake.calls) < 3 and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (out / "ledger.jsonl").exists()
    with serving("openai", otherwise=speaking(lambda call: "I do not know.")) as fake:
        again = json.dumps({**spec, "name": f"openai:m@{fake.url}"})
        assert main([again if each == json.dumps(spec) else each for each in arguments]) == 0
        rows = lines(out / "ledger.jsonl")
        assert [row["known"] for row in rows].count(False) == 3
        assert len(rows) == 3 + len(fake.calls)
    assert "3 calls were in flight" in capsys.readouterr().err


def test_what_another_process_booked_meanwhile_is_not_booked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed when it has booked the calls, and before it has removed their file."""
    ledger = tmp_path / "ledger.jsonl"
    killed(ledger, 3)
    (left,) = open_files(tmp_path)
    calls = [json.loads(line) for line in left.read_text().splitlines()]
    calls = [each for each in calls if each["most"] == 5.0]
    flock = fcntl.flock

    def late(file: Any, how: int) -> None:
        flock(file, how)
        if "r" in getattr(file, "mode", ""):
            booked = [{"cost": each["most"], "id": each["id"]} for each in calls]
            with ledger.open("a") as other:
                other.writelines(json.dumps(each) + "\n" for each in booked)

    monkeypatch.setattr(fcntl, "flock", late)
    assert Budget(None, PRICE, ledger).spent == 16.0
    ids = [each["id"] for each in lines(ledger)]
    assert len(ids) == len(set(ids)) == 4


def test_processes_that_open_a_ledger_at_once_book_each_call_once(tmp_path: Path) -> None:
    for n in range(3):
        ledger = tmp_path / f"{n}.jsonl"
        killed(ledger, 20)
        others = [
            subprocess.Popen([sys.executable, "-W", "ignore", "-c", OPENING, ledger], stdin=subprocess.PIPE)
            for _ in range(4)
        ]
        for each in others:
            assert each.stdin is not None
            each.stdin.close()
        assert [each.wait(60) for each in others] == [0] * 4
        ids = [each["id"] for each in lines(ledger)]
        assert len(ids) == len(set(ids)) == 21
        assert open_files(tmp_path) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cost", -1.0),
        ("cost", float("nan")),
        ("cost", float("inf")),
        ("prompt", -3),
        ("output", float("nan")),
    ],
)
def test_amounts_that_cannot_be_are_refused(tmp_path: Path, field: str, value: float) -> None:
    ledger = tmp_path / "ledger.jsonl"
    row = {"cost": 1.0, "prompt": 1, "output": 1, "id": "a"}
    ledger.write_text(f"{json.dumps(row)}\n{json.dumps(row | {field: value})}\n")
    with pytest.raises(CoachError, match=rf"ledger\.jsonl line 2 .*{field} must be .*{value!r}"):
        Budget(10.0, PRICE, ledger)


@pytest.mark.parametrize("most", ["-5.0", "NaN", "Infinity"])
def test_a_reservation_that_cannot_be_is_refused(tmp_path: Path, most: str) -> None:
    (tmp_path / ".ledger.jsonl.0.open").write_text(f'{{"id": "a", "most": {most}}}\n')
    with pytest.raises(CoachError, match=r"\.ledger\.jsonl\.0\.open holds .*most must be"):
        Budget(None, PRICE, tmp_path / "ledger.jsonl")
