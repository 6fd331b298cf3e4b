"""What a finished episode says nothing about its team for."""

from __future__ import annotations

from mappa_env.types import Outcome, Task, Trajectory
from mappa_rl.rollout.failures import infrastructure_failure
from mappa_rl.types import Rollout


def test_an_outcome_that_the_sandbox_could_not_give_is_a_failure() -> None:
    task = Task("t", "prompt", "unit_tests")
    rollout = Rollout((), task.id, "", 0, False, 0.0)
    for status, words in (("unavailable", "sandbox: no room"), ("ok", ""), ("no_solution", "")):
        outcome = Outcome(0.0, False, status, "no room")
        assert infrastructure_failure(rollout, Trajectory("Mine-v0", task, 0, (), outcome)) == words
