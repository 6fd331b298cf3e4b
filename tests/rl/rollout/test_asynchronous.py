"""Episodes that are played each on their own, whatever engines, sandboxes and coaches do to them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.errors import CoachStopped
from mappa_env.seeds import derived_seed
from mappa_rl.errors import EngineError, RunError
from mappa_rl.evaluation.evaluate import evaluate
from mappa_rl.rollout.metrics import check_masked, rollout_stats
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job
from simulated import SimulatedEngine, SimulatedEnv, async_rollout, policies, unit

SAMPLING = Sampling(1.0, 8, 512, 1.0, {})


def play(jobs: int, engine: SimulatedEngine, faults: Any = None, **options: Any) -> Collected:
    def make() -> Any:
        return SimulatedEnv(faults=faults) if faults else SimulatedEnv()

    with async_rollout(make, policies(engine), **options) as stream:
        return stream.collect([Job(seed) for seed in range(jobs)], SAMPLING)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    jobs=st.integers(0, 14),
    in_flight=st.integers(1, 16),
    retries=st.integers(0, 2),
    rate=st.sampled_from([0.0, 0.1, 0.5]),
    salt=st.integers(0, 10**6),
)
def test_every_job_is_finished_once_and_in_order(
    jobs: int, in_flight: int, retries: int, rate: float, salt: int
) -> None:
    """With random latencies, and failures of engine and sandbox that may be gone at the next try."""
    lock, asked = threading.Lock(), Counter[object]()

    def fails(*key: object) -> bool:
        with lock:
            asked[key] += 1
            return unit(salt, *key, asked[key]).random() < rate

    engine = SimulatedEngine(
        lambda seed: unit(salt, seed).choice([0.0, 0.0, 0.002, 0.01]),
        lambda seed: EngineError("gone") if fails("engine", seed) else None,
    )

    def faults(kind: str, seed: int, step: int) -> str | Exception | None:
        kinds = ["it failed"] if kind == "coach" else ["it failed", ConnectionError(), OSError(28, "full")]
        return unit(salt, seed, step).choice(kinds) if fails(kind, seed, step) else None

    done = play(jobs, engine, faults, in_flight=in_flight, retries=retries)
    assert [rollout.seed for rollout in done.rollouts] == list(range(jobs))
    assert len(done.trajectories) == len(done.reasons) == jobs
    for rollout, trajectory, reason in zip(done.rollouts, done.trajectories, done.reasons, strict=True):
        assert (rollout.ended == "failed") == bool(reason)
        assert len(rollout.turns) == len(trajectory.actions)
        assert all(turn.valid == (rollout.ended == "done") for turn in rollout.turns)
    failed = sum(rollout.ended == "failed" for rollout in done.rollouts)
    assert done.stats["failed"] == failed
    assert retries * failed <= done.stats["retries"] <= retries * jobs
    if not rate:
        assert (failed, done.stats["retries"]) == (0, 0)


def test_nothing_waits_for_a_slower_neighbour() -> None:
    """One episode's sandbox works until all the others are over."""
    over, others = threading.Event(), list(range(1, 6))

    def held(kind: str, seed: int, step: int) -> None:
        assert seed or kind == "coach" or over.wait(120)

    def ended(_: object) -> None:
        others.pop()
        if not others:
            over.set()

    with async_rollout(lambda: SimulatedEnv(faults=held), policies(SimulatedEngine()), in_flight=6) as stream:
        first = stream.submit(Job(0), SAMPLING)
        for seed in list(others):
            stream.submit(Job(seed), SAMPLING).add_done_callback(ended)
        assert first.result(240).rollout.ended == "done"


@pytest.mark.slow
def test_an_episode_beyond_its_time_is_ended_and_masked() -> None:
    engine = SimulatedEngine(lambda seed: None if seed == derived_seed(2, 1) else 0.0)
    done = play(4, engine, in_flight=2, max_episode_s=8.0, retries=5)
    late = done.rollouts[2]
    assert (late.ended, len(late.turns), late.success) == ("timed_out", 1, False)
    assert not any(turn.valid for turn in late.turns)
    assert [len(trajectory.actions) for trajectory in done.trajectories][2] == 1
    assert done.stats["timed_out"] == 1
    assert "max_episode_s=8" in done.reasons[2]
    assert done.stats["retries"] == 0


@pytest.mark.parametrize("kind", ["sandbox", "coach", "engine", "connection"])
def test_infrastructure_failures_are_tried_again_then_masked_and_counted(kind: str) -> None:
    """Episode 0 fails always, episode 1 at its first try."""
    lock, tries = threading.Lock(), Counter[int]()

    def fails(episode: int) -> bool:
        with lock:
            tries[episode] += 1
            return episode == 0 or (episode == 1 and tries[episode] == 1)

    def faults(part: str, seed: int, step: int) -> str | Exception | None:
        if step != 1 or part != ("sandbox" if kind == "connection" else kind) or not fails(seed):
            return None
        return ConnectionError("reset by peer") if kind == "connection" else "it failed"

    def errors(seed: int) -> Exception | None:
        episodes = [episode for episode in range(3) if seed == derived_seed(episode, 1)]
        return EngineError("it is gone") if kind == "engine" and any(map(fails, episodes)) else None

    done = play(3, SimulatedEngine(errors=errors), faults, retries=2)
    assert [rollout.ended for rollout in done.rollouts] == ["failed", "done", "done"]
    assert not any(turn.valid for turn in done.rollouts[0].turns)
    assert all(turn.valid for rollout in done.rollouts[1:] for turn in rollout.turns)
    assert done.stats == {"retries": 3.0, "timed_out": 0.0, "failed": 1.0}
    stats = rollout_stats(done)
    assert stats["failed"] == 1
    assert 0 < stats["masked"] < 1
    with pytest.raises(RunError, match=r"step 7: \d+% of the actions"):
        check_masked(done, 0.0, 7)


def test_a_defect_and_a_stopped_coach_propagate() -> None:
    for error in (ValueError("a defect"), CoachStopped("wrong key")):
        with pytest.raises(type(error), match=str(error)):
            play(
                3,
                SimulatedEngine(),
                lambda kind, seed, step, error=error: error if kind == "sandbox" else None,
                retries=3,
            )


def test_an_evaluation_with_failed_episodes_is_none() -> None:
    def faults(kind: str, seed: int, step: int) -> str:
        return "it failed"

    with (
        async_rollout(lambda: SimulatedEnv(faults=faults), policies(SimulatedEngine())) as stream,
        pytest.raises(RunError, match="2 of 2 evaluation episodes failed"),
    ):
        evaluate(stream, stream.task_ids[:2], SAMPLING, seed=1)


def test_closing_gives_up_what_is_under_way() -> None:
    engine = SimulatedEngine(lambda seed: None)
    stream = async_rollout(SimulatedEnv, policies(engine), in_flight=2, max_episode_s=600)
    asked = [stream.submit(Job(seed), SAMPLING) for seed in range(4)]
    while stream.generating_s == 0:
        threading.Event().wait(0.01)
    stream.close()
    assert engine.aborted
    assert all(future.cancelled() for future in asked)
