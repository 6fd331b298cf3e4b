"""An evaluation counts no episode whose sandbox was unavailable."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import gymnasium as gym
import pytest

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.sandbox.base import Limits, Result
from mappa_env.sandbox.calculator import CalculatorSandbox
from mappa_env.workspace.workspace import Workspace
from mappa_rl.engines.base import Generation, Request
from mappa_rl.errors import RunError
from mappa_rl.evaluation.evaluate import TRIES, Evaluation, evaluate
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies, Policy
from mappa_rl.rollout.sampling import Sampling
from simulated import TEAMS, SimulatedChat, SimulatedEngine

ID = "mappa/MathChat-v0"


class Coding(SimulatedEngine):
    def submit(self, request: Request) -> Future[Generation]:
        future: Future[Generation] = Future()
        future.set_result(Generation((0,), (-0.5,), "eos", 0))
        return future

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        return [self.submit(request).result() for request in requests]


class Code(SimulatedChat):
    def decode(self, ids: Sequence[int]) -> str:
        return "```python\nprint(6 * 7)\n```\n\\boxed{42}"


def play(monkeypatch: pytest.MonkeyPatch, failures: int) -> tuple[Evaluation, int]:
    """Four episodes in a sandbox whose first ``failures`` runs fail; and the number of runs."""
    runs = 0
    real = CalculatorSandbox.run

    def run(
        self: CalculatorSandbox, workspace: Workspace, code: str, limits: Limits, *, seed: int = 0
    ) -> Result:
        nonlocal runs
        runs += 1
        if runs <= failures:
            return Result("unavailable", None, "", "the sandbox could not work: it is on fire")
        return real(self, workspace, code, limits, seed=seed)

    monkeypatch.setattr(CalculatorSandbox, "run", run)
    chat: Any = Code()
    engine: Any = Coding()
    policies = Policies(PolicyMap.from_spec("shared", TEAMS[ID]), [Policy("shared", None, chat, engine)])
    make: Any = partial(gym.make, ID, coach="off", sandbox="calculator")
    with LockstepRollout(make, policies, in_flight=4, lockstep_groups=1, workers=1) as worker:
        return evaluate(worker, worker.task_ids[:4], Sampling(1.0, 8, 512, 1.0, {}), seed=1), runs


def statuses(done: Evaluation) -> list[str]:
    return [each.outcome.status for each in done.trajectories if each.outcome]


def test_an_episode_without_its_sandbox_is_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clean, runs = play(monkeypatch, 0)
    assert "unavailable" not in statuses(clean)
    monkeypatch.undo()
    found, more = play(monkeypatch, 2)
    assert statuses(found) == statuses(clean)
    assert [t.task.id for t in found.trajectories] == [t.task.id for t in clean.trajectories]
    assert [t.seed for t in found.trajectories] == [t.seed for t in clean.trajectories]
    assert more > runs


def test_a_sandbox_that_stays_away_ends_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"4 of 4 evaluation episodes failed.*it is on fire\. Fix the cause"):
        play(monkeypatch, 10**6)


def test_the_number_of_tries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, once = play(monkeypatch, 0)
    monkeypatch.undo()
    seen: list[int] = []
    real = LockstepRollout.collect

    def collect(self: LockstepRollout, jobs: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(len(jobs))
        return real(self, jobs, *args, **kwargs)

    monkeypatch.setattr(LockstepRollout, "collect", collect)
    with pytest.raises(RunError):
        play(monkeypatch, 10**6)
    assert seen == [4] * TRIES
    assert once > 0
