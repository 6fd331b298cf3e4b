"""On a cluster, all environments of a run ask one coach: one budget, one limit, one cache, one ledger."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fake_llm as fakes
from mappa_env.trace import Traces
from mappa_rl.cluster.actors import answer
from mappa_rl.cluster.session import import_ray
from mappa_rl.coach.service import NAME
from mappa_rl.config import load_config
from mappa_rl.training.trainer import train
from ray_cluster import nodes
from tiny_run import TINY

EPISODES = 6
RUN = (*TINY, "warmstart.steps=3", f"rollout.episodes_per_step={EPISODES}", "run.steps=2", "eval.episodes=2")
KEY = "secret-key-of-the-tests"


def trained(out: Path, address: str, coach: Any) -> list[Any]:
    """The ``asked`` of every recorded verdict of a run there."""
    where = ["cluster=ray", f"cluster.address={address}", "cluster.env_cpus=0.5", "cluster.envs_per_worker=3"]
    train(load_config("demo", [*RUN, *where, f"env.coach={json.dumps(coach)}", f"out={out}"]), out)
    verdicts = [action.verdict for each in Traces(out) for action in each.trajectory.actions]
    assert {verdict.status for verdict in verdicts} <= {"ok", "abstain"}
    return [verdict.asked for verdict in verdicts if verdict.asked is not None]


def ledger(out: Path) -> list[str]:
    return (out / "coach" / "ledger.jsonl").read_text().splitlines()


@pytest.mark.slow
def test_one_budget_one_limit_and_a_ledger_equal_to_the_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    grade = lambda call, name: len(call.text) % 5  # noqa: E731
    with nodes(2) as cluster, fakes.serving("openai", grade=grade, latency_s=0.02) as server:
        coach = {"name": f"openai:m@{server.url}", "concurrency": 2}
        asked = trained(tmp_path / "run", cluster.address, coach)
        assert sum(each.calls for each in asked) == len(ledger(tmp_path / "run")) == len(server.calls) - 1
        assert server.most_in_flight <= 2, "two workers share one limit"
        files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
        assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.slow
def test_a_service_that_dies_loses_no_cost_and_asks_again_only_what_was_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    out = tmp_path / "run"
    with nodes(2) as cluster, fakes.serving("openai", latency_s=0.02) as server:
        killed: list[int] = []

        def kill() -> None:
            while len(server.calls) < 12:
                time.sleep(0.005)
            killed.append(answer(import_ray().get_actor(NAME).where.remote(), NAME)["pid"])
            os.kill(killed[0], signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        asked = trained(out, cluster.address, f"openai:m@{server.url}")
        killer.join(5.0)
    assert killed
    assert asked
    with closing(sqlite3.connect(out / "coach" / "calls.sqlite")) as cache:
        (answers,) = cache.execute("select count(*) from calls").fetchone()
    known = [row for row in map(json.loads, ledger(out)) if row["known"]]
    # An answer is booked before it is kept, so a kill between the two has it asked, and paid for, again.
    assert 0 <= len(known) - answers <= EPISODES, "every answer was paid for, and few of them twice"
    assert len(ledger(out)) - len(known) <= EPISODES, "each episode waits for at most one answer"
    # A call is in the ledger before it is sent, so a kill may come before the server sees it. The server also
    # saw the check of the key before the run, as above.
    assert len(ledger(out)) >= len(server.calls) - 1, "what the kill cut short is not lost"
