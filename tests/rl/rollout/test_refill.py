"""Dynamic sampling: groups that teach nothing are played again, against DAPO's rule written as a loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mappa_env.types import Trajectory
from mappa_rl.config import Algo, Config, load_config
from mappa_rl.config.rollout import Rollout as RolloutSection
from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.batches import AsyncBatches, OnPolicyBatches
from mappa_rl.rollout.jobs import jobs_of
from mappa_rl.rollout.refill import Refill, refill_of
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job, Seconds
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from mappa_rl.types import Rollout, Turn
from simulated import SimulatedEngine, SimulatedEnv, async_rollout, policies, unit
from tiny_run import TINY

SAMPLING = Sampling(1.0, 8, 512, 1.0, {})
TEAM = PolicyMap.from_spec("separate", ["solver_0", "coder_0"], ["coder_0"])
SIZE, STEP = 4, 3


def rewards_of(seed: int) -> tuple[float, float, bool]:
    """The rewards of both agents, and whether they are valid: some groups are flat, some masked."""
    draw = unit("rewards", seed // SIZE)
    if draw.random() < 0.1:
        return 0.0, 0.0, False
    level = 0.0 if draw.random() < 0.7 else float(seed % SIZE == 1)
    return level, float(seed % 3), True  # the frozen agent's rewards differ: nobody learns from them


def episode(job: Job) -> Rollout:
    solver, coder, valid = rewards_of(job.seed)
    turns = tuple(
        Turn(agent, agent, k, 0, [1, 2], [3], [-1.0], "eos", reward, valid, ("math", agent[:-2], 0))
        for k, (agent, reward) in enumerate((("solver_0", solver), ("coder_0", coder)))
    )
    return Rollout(turns, f"task-{job.seed // SIZE}", "topic", job.seed, False, 0.0)


class Worker:
    """Plays at once; an episode costs two tokens and a second."""

    task_ids = tuple(f"task-{k}" for k in range(50))

    def collect(self, jobs: Sequence[Job], sampling: Sampling, **_: Any) -> Collected:
        rollouts = [episode(job) for job in jobs]
        none: list[Trajectory] = [None] * len(jobs)  # type: ignore[list-item]
        return Collected(rollouts, none, 2 * len(jobs), Seconds(total=len(jobs)), {"retries": 1.0})


def config(rounds: int) -> Config:
    asked = ["rollout.group_size=4", "rollout.episodes_per_step=32", f"rollout.refill_rounds={rounds}"]
    return load_config("demo", [*asked, "algo.drop_zero_variance_groups=true"])


def numbered(step: int, round_: int = 0) -> list[Job]:
    """Jobs whose seeds say step, round and place, in groups of consecutive seeds."""
    return [Job((step * 10 + round_) * 1000 + i) for i in range(32)]


@pytest.mark.parametrize("rounds", [1, 2, 50])
def test_a_step_learns_from_the_first_groups_with_a_spread(rounds: int) -> None:
    """DAPO's loop: per place, play until rewards that somebody learns from differ, or until the limit."""
    right, dropped, most = [], [], 0
    for place in range(8):
        for round_ in range(rounds + 1):
            group = [job.seed for job in numbered(STEP, round_)[place * SIZE : (place + 1) * SIZE]]
            found = [rewards_of(seed) for seed in group]
            flat = all(valid for _, _, valid in found) and len({solver for solver, _, _ in found}) == 1
            if not flat or round_ == rounds:
                break
            dropped += group
        right += group
        most = max(most, round_)
    worker: Any = Worker()
    refill = refill_of(config(rounds), TEAM, worker)
    assert refill is not None
    refill = Refill(refill.rounds, refill.group_size, numbered, refill.teaches)
    taken = OnPolicyBatches(worker, None, numbered, SAMPLING, refill).take(STEP)  # type: ignore[arg-type]
    assert [rollout.seed for rollout in taken.rollouts] == right
    assert taken.replaced is not None
    assert sorted(rollout.seed for rollout in taken.replaced.rollouts) == sorted(dropped)
    assert [r.seed for r in taken.played.rollouts[:32]] == right
    assert len(taken.played.rollouts) == 32 + len(dropped)
    assert (taken.stats["refill_rounds"], taken.stats["refilled_groups"]) == (most, len(dropped) // SIZE)
    assert (taken.tokens, taken.seconds.total) == (2 * len(taken.played.rollouts), 32 + len(dropped))
    assert taken.stats["retries"] == 1 + most
    assert len(dropped) > 0


def test_other_jobs_are_drawn_in_every_round_and_repeat() -> None:
    worker: Any = Worker()
    rounds = [jobs_of(config(2), worker, STEP, round_) for round_ in range(3)]
    assert len({job.seed for jobs in rounds for job in jobs}) == 3 * 32
    assert all(len({job.task_id for job in jobs[i : i + SIZE]}) == 1 for jobs in rounds for i in (0, 28))
    assert rounds[0] == jobs_of(config(0), worker, STEP)
    assert rounds[1] == jobs_of(config(2), worker, STEP, 1)


def test_it_needs_the_filter_whose_place_it_takes() -> None:
    assert refill_of(config(0), TEAM, Worker()) is None  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"refill_rounds=2 replaces .* set that to true"):
        load_config("demo", ["rollout.refill_rounds=2", "rollout.group_size=2"])
    assert Algo().drop_zero_variance_groups is False


def seed_of(step: int, round_: int, place: int) -> int:
    return (step * 10 + round_) * 1000 + place


def flat(rollouts: Sequence[Rollout], salt: int) -> bool:
    return unit("flat", salt, min(rollout.seed for rollout in rollouts)).random() < 0.6


@pytest.mark.parametrize(("salt", "staleness", "between"), [(0, 0, True), (1, 1, True), (2, 2, False)])
def test_asynchronous_steps_are_refilled_too_and_stay_fresh(salt: int, staleness: int, between: bool) -> None:
    """Also after a resume in the middle; a group is learned from once, whatever was played before it."""
    steps, groups, size, rounds = 4, 3, 2, 2
    section = RolloutSection(
        episodes_per_step=groups * size, group_size=size, staleness=staleness, update_between_turns=between
    )

    def jobs(step: int, round_: int = 0) -> list[Job]:
        return [Job(seed_of(step, round_, place)) for place in range(groups * size)]

    refill = Refill(rounds, size, jobs, lambda rollouts: not flat(rollouts, salt))
    taken: list[Collected] = []
    state: Any = None
    for first, last in ((1, 2), (3, steps)):
        engine = SimulatedEngine(lambda seed: unit(salt, seed).choice([0.0, 0.0, 0.002, 0.01]))
        played = policies(engine)
        with async_rollout(SimulatedEnv, played, in_flight=24) as stream:
            batches = AsyncBatches(
                stream,
                played,
                jobs,
                SAMPLING,
                rollout=section,
                steps=steps,
                refill=refill,
            )
            if state is not None:
                batches.load(state)
            batches.update(first - 1)
            for step in range(first, last + 1):
                taken.append(batches.take(step))
                batches.update(step)
            state = json.loads(json.dumps(batches.state()))
    places = []
    for step, own in enumerate(taken, start=1):
        assert own.replaced is not None
        for at in range(0, groups * size, size):
            group = own.rollouts[at : at + size]
            first_seed = group[0].seed
            origin, round_, place = first_seed // 10_000, first_seed // 1000 % 10, first_seed % 1000
            places.append((origin, place))
            assert [rollout.seed for rollout in group] == [first_seed, first_seed + 1]
            assert round_ == rounds or not flat(group, salt)
            earlier = [seed_of(origin, k, place) for k in range(round_)]
            assert all(unit("flat", salt, seed).random() < 0.6 for seed in earlier)
            assert {*earlier} <= {rollout.seed for rollout in own.replaced.rollouts}
            versions = [turn.version for rollout in group for turn in rollout.turns]
            assert max(step - 1 - version for version in versions) <= staleness
        assert own.stats["refilled_groups"] == len(own.replaced.rollouts) / size
        assert own.tokens == sum(len(t.action_ids) for r in own.played.rollouts for t in r.turns)
    assert sorted(places) == [(step, size * k) for step in range(1, steps + 1) for k in range(groups)]
    assert sum(own.stats["refilled_groups"] for own in taken) > 0


def test_a_defect_in_the_choice_reaches_the_run() -> None:
    def broken(_: Sequence[Rollout]) -> bool:
        raise RuntimeError("broken choice")

    played = policies(SimulatedEngine())
    jobs = lambda step, round_=0: [Job(seed_of(step, round_, place)) for place in range(2)]  # noqa: E731
    section = RolloutSection(episodes_per_step=2, group_size=2)
    with async_rollout(SimulatedEnv, played) as stream:
        refill = Refill(1, 2, jobs, broken)
        batches = AsyncBatches(stream, played, jobs, SAMPLING, rollout=section, steps=1, refill=refill)
        batches.update(0)
        with pytest.raises(RuntimeError, match="broken choice"):
            batches.take(1)


GROUPS = [
    *TINY,
    "warmstart.steps=60",
    "warmstart.batch_size=8",
    "algo.name=grpo",
    "rollout.group_size=4",
    "algo.drop_zero_variance_groups=true",
    "rollout.refill_rounds=2",
]


@pytest.mark.slow
def test_runs_refill_log_it_and_resume_exactly(tmp_path: Path) -> None:
    train(load_config("demo", [*GROUPS, "run.steps=0"]), tmp_path / "start")
    start = f"warmstart.path={tmp_path / 'start' / 'warmstart'}"
    asked = [*GROUPS, start, "run.checkpoint_every=1"]
    train(load_config("demo", [*asked, "run.steps=3"]), tmp_path / "whole")
    whole = read_metrics(tmp_path / "whole")
    assert sum(row["refilled_groups"] for row in whole) > 0
    for row in whole:
        assert row["episodes"] == 8 + 4 * row["refilled_groups"]
        assert row["refill_rounds"] <= 2
    train(load_config("demo", [*asked, "run.steps=1"]), tmp_path / "cut")
    train(load_config("demo", [*asked, "run.steps=3"]), tmp_path / "cut", True)
    for a, b in zip(whole, read_metrics(tmp_path / "cut"), strict=True):
        same = {k: v for k, v in a.items() if not k.startswith(("time/", "tokens_per_s"))}
        assert same == {k: b[k] for k in same}
    stale = ["rollout.staleness=1", "algo.importance_sampling=tis", "policies.map=lora"]
    train(load_config("demo", [*asked, *stale, "run.steps=3"]), tmp_path / "stale")
    rows = read_metrics(tmp_path / "stale")
    assert sum(row["refilled_groups"] for row in rows) > 0
    assert max(row["staleness_max"] for row in rows) <= 1
