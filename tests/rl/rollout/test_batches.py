"""Training steps get every episode once, none older than the bound, also after a kill."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_rl.config import load_config
from mappa_rl.config.rollout import Rollout as RolloutSection
from mappa_rl.errors import ConfigError
from mappa_rl.rollout.batches import AsyncBatches, OnPolicyBatches, batches_of
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job
from simulated import SimulatedEngine, SimulatedEnv, async_rollout, policies, unit

SAMPLING = Sampling(1.0, 8, 512, 1.0, {})


class Run:
    """The rollouts of a training run whose learner does nothing; ``kill`` after a step, then go on."""

    def __init__(self, steps: int, per_step: int, salt: int, **options: Any) -> None:
        self.steps, self.per_step, self.salt, self.options = steps, per_step, salt, options
        self.taken: list[Collected] = []

    def jobs_of(self, step: int) -> Sequence[Job]:
        return [Job((step - 1) * self.per_step + i) for i in range(self.per_step)]

    def play(self, first: int, last: int, state: str) -> str:
        """Steps ``first`` to ``last``, and the state that a checkpoint keeps after them."""
        slow = [0.0, 0.0, 0.0, 0.003, 0.03]
        engine = SimulatedEngine(lambda seed: unit(self.salt, seed).choice(slow))
        played = policies(engine)
        with async_rollout(SimulatedEnv, played, in_flight=24, retries=1) as stream:
            batches = AsyncBatches(
                stream,
                played,
                self.jobs_of,
                SAMPLING,
                rollout=RolloutSection(episodes_per_step=self.per_step, **self.options),
                steps=self.steps,
            )
            if killed_with := json.loads(state):
                batches.load(killed_with)
            batches.update(first - 1)
            for step in range(first, last + 1):
                self.taken.append(batches.take(step))
                batches.update(step)
            return json.dumps(batches.state())


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    steps=st.integers(1, 5),
    groups=st.integers(1, 3),
    each=st.integers(1, 2),
    staleness=st.integers(0, 3),
    between=st.booleans(),
    salt=st.integers(0, 10**6),
    data=st.data(),
)
def test_every_episode_is_learned_from_once_and_fresh_enough(
    steps: int, groups: int, each: int, staleness: int, between: bool, salt: int, data: st.DataObject
) -> None:
    """Killed after any step, with what was under way lost."""
    run = Run(steps, groups * each, salt, group_size=each, staleness=staleness, update_between_turns=between)
    killed = data.draw(st.integers(0, steps))
    state = run.play(1, killed, "null") if killed else "null"
    run.play(killed + 1, steps, state)
    assert len(run.taken) == steps
    seeds = [[rollout.seed for rollout in taken.rollouts] for taken in run.taken]
    assert sorted(seed for step in seeds for seed in step) == list(range(steps * run.per_step))
    for step, (own, taken) in enumerate(zip(seeds, run.taken, strict=True), start=1):
        assert own == sorted(own)
        assert len({seed // each for seed in own}) == groups, "a task's episodes go together"
        assert max(own) < (step + staleness) * run.per_step
        for rollout in taken.rollouts:
            versions = [turn.version for turn in rollout.turns]
            assert versions == sorted(versions)
            assert 0 <= step - 1 - versions[0] <= staleness
            assert between or len(set(versions)) == 1
        assert taken.stats["staleness_max"] <= staleness


def test_a_step_does_not_wait_for_a_slow_episode_that_may_be_learned_from_later() -> None:
    """Until the bound: with k = 2 an episode that began before the first update is due in step 3."""
    release = threading.Event()

    def faults(kind: str, seed: int, step: int) -> None:
        assert seed or kind == "coach" or release.wait(120)

    played = policies(SimulatedEngine())
    jobs, section = Run(4, 2, 0).jobs_of, RolloutSection(episodes_per_step=2, staleness=2)
    with async_rollout(lambda: SimulatedEnv(faults=faults), played, in_flight=8) as stream:
        batches = AsyncBatches(stream, played, jobs, SAMPLING, rollout=section, steps=4)
        seeds = []
        for step in range(4):
            batches.update(step)
            if step == 2:
                assert batches.state() == {"first": 0, "beyond": sorted(seeds)}
                release.set()
            seeds += [rollout.seed for rollout in batches.take(step + 1).rollouts]
    assert 0 not in seeds[:4]
    assert 0 in seeds[4:6]
    assert sorted(seeds) == list(range(8))


def test_a_quick_episode_does_not_overtake_slow_ones_that_would_then_be_too_old() -> None:
    """With k = 2 and one episode a step, two slow ones of the start fill steps 2 and 3."""
    release = threading.Event()

    def faults(kind: str, seed: int, step: int) -> None:
        assert seed not in (1, 2) or kind == "coach" or release.wait(120)

    played = policies(SimulatedEngine())
    jobs, section = Run(5, 1, 0).jobs_of, RolloutSection(episodes_per_step=1, staleness=2)
    with async_rollout(lambda: SimulatedEnv(faults=faults), played, in_flight=8) as stream:
        batches = AsyncBatches(stream, played, jobs, SAMPLING, rollout=section, steps=5)
        taken = []
        for step in range(5):
            batches.update(step)
            if step == 1:
                threading.Timer(0.5, release.set).start()  # episode 3 is over by then
            taken.append(batches.take(step + 1))
    seeds = [rollout.seed for each in taken for rollout in each.rollouts]
    assert [seeds[0], *sorted(seeds[1:3]), *seeds[3:]] == list(range(5))
    assert max(each.stats["staleness_max"] for each in taken) <= 2


def test_on_policy_a_step_plays_its_own_episodes() -> None:
    played = policies(SimulatedEngine())
    with async_rollout(SimulatedEnv, played) as stream:
        batches = OnPolicyBatches(stream, played, Run(2, 3, 0).jobs_of, SAMPLING)
        batches.update(4)
        taken = batches.take(2)
    assert [rollout.seed for rollout in taken.rollouts] == [3, 4, 5]
    assert {turn.version for rollout in taken.rollouts for turn in rollout.turns} == {4}
    assert batches.state() == {}


def test_the_config_says_what_goes_together() -> None:
    assert not load_config("demo").is_async
    assert load_config("demo", ["engine.name=vllm"]).is_async
    assert not load_config("demo", ["engine.name=vllm", "rollout.schedule=lockstep"]).is_async
    for override in ("rollout.retries=1", "rollout.max_episode_s=30", "rollout.schedule=async"):
        assert load_config("demo", [override]).is_async
    assert load_config("demo", ["rollout.staleness=1", "algo.importance_sampling=tis"]).is_async
    with pytest.raises(ConfigError, match=r"staleness=1 trains on .* Use algo.importance_sampling=tis"):
        load_config("demo", ["rollout.staleness=1"])
    with pytest.raises(ConfigError, match=r"does not support rollout.max_episode_s=9 rollout.retries=2"):
        load_config("demo", ["rollout.schedule=lockstep", "rollout.retries=2", "rollout.max_episode_s=9"])


def test_a_run_goes_on_by_the_other_schedule_where_it_stopped() -> None:
    """The lockstep schedule keeps no state: the steps that are done say it all."""
    settings_ = [
        "rollout.episodes_per_step=2",
        "rollout.lockstep_groups=1",
        "run.steps=4",
        "rollout.retries=1",
    ]
    config, played = load_config("demo", settings_), policies(SimulatedEngine())
    with async_rollout(SimulatedEnv, played, in_flight=8) as stream:
        batches = batches_of(config, played, stream, {}, 2)
        assert batches.state() == {"first": 4, "beyond": []}
        assert len(batches.take(3).rollouts) == 2
        assert batches.state() == {"first": 6, "beyond": []}
