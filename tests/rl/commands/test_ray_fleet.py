"""Which ends of a leader and its followers start a run again, and which end it."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mappa_rl.commands import ray_fleet
from mappa_rl.errors import ActorLost, RunError

CUT = RuntimeError("Connection closed by peer")


class Following:
    """Stands for the reference of a follower's call, which ends after ``seconds`` with an error or well."""

    def __init__(self, outcome: Exception | None, seconds: float) -> None:
        self.outcome, self._end = outcome, Future[None]()
        timer = threading.Timer(seconds, self._end.set_result, (None,))
        timer.daemon = True
        timer.start()

    def future(self) -> Future[None]:
        return self._end


def watched(
    monkeypatch: pytest.MonkeyPatch, leader: str, outcome: Exception | None, seconds: float
) -> str | None:
    def answer(reference: Any, name: str) -> None:
        assert name == "learner-1"
        if reference.outcome is not None:
            raise reference.outcome

    monkeypatch.setattr(ray_fleet, "answer", answer)
    monkeypatch.setattr(ray_fleet, "_POLL_S", 0.1)
    monkeypatch.setattr(ray_fleet, "VERDICT_S", 3.0)
    process = subprocess.Popen([sys.executable, "-c", f"import os, sys, time; {leader}"])
    try:
        return ray_fleet._watched(process, [Following(outcome, seconds)], Path("runs/a"))
    finally:
        process.kill()
        process.wait()


def test_a_leader_that_fails_before_ray_knows_of_a_death_has_lost_its_follower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert watched(monkeypatch, "sys.exit(1)", ActorLost("learner-1 is lost"), 1.5) == "learner-1 is lost"


def test_a_follower_that_fails_before_the_leader_is_seen_dead_is_no_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dies = "time.sleep(1); os.kill(os.getpid(), 9)"
    lost = watched(monkeypatch, dies, CUT, 0.0)
    assert lost is not None
    assert "ended by signal 9" in lost


def test_a_leader_that_fails_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"leads runs/a .*learner-1 failed with RuntimeError: Connect"):
        watched(monkeypatch, "time.sleep(1); sys.exit(1)", CUT, 0.0)


def test_a_follower_that_fails_ends_a_run_whose_leader_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="learner-1 failed with ValueError: a defect"):
        watched(monkeypatch, "time.sleep(60)", ValueError("a defect"), 0.0)


def test_a_run_is_done_when_its_leader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, "sys.exit(0)", None, 60.0) is None
