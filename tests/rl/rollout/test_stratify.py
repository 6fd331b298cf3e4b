"""Every step has its share of each task family, and on average exactly."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_rl.config import load_config
from mappa_rl.rollout.jobs import jobs_of, stratified
from mappa_rl.rollout.policies import Policies
from mappa_rl.training.build import make_worker

POOLS = {"regression": [f"r{i}" for i in range(34)], "classification": [f"c{i}" for i in range(30)]}


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
    st.integers(1, 40),
    st.sampled_from(["proportional", "equal"]),
    st.integers(0, 2**62),
)
def test_every_family_has_its_share_rounded_down_or_up(
    sizes: list[int], count: int, how: Literal["proportional", "equal"], seed: int
) -> None:
    pools = {f"f{k}": [f"{k}-{i}" for i in range(size)] for k, size in enumerate(sizes)}
    drawn = stratified(pools, count, how, seed)
    assert len(drawn) == count
    assert drawn == stratified(pools, count, how, seed)
    found = Counter(task.split("-")[0] for task in drawn)
    for k, size in enumerate(sizes):
        share = size / sum(sizes) if how == "proportional" else 1 / len(sizes)
        assert abs(found[str(k)] - share * count) < 1 + 1e-9


def test_shares_hold_on_average_and_tasks_of_a_family_are_equally_likely() -> None:
    drawn = Counter(task for seed in range(4000) for task in stratified(POOLS, 16, "proportional", seed))
    share = sum(n for task, n in drawn.items() if task[0] == "r") / drawn.total()
    assert share == pytest.approx(34 / 64, abs=0.005)
    assert len(drawn) == 64
    assert max(drawn.values()) < 1.25 * min(drawn.values())
    equal = Counter(task[0] for seed in range(50) for task in stratified(POOLS, 16, "equal", seed))
    assert equal == {"r": 400, "c": 400}


@pytest.mark.slow
def test_a_step_draws_its_tasks_by_family_and_repeats_each(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["rollout.group_size=2", "rollout.episodes_per_step=16", "rollout.stratify=equal"]
    config = load_config("demo_dsbench", [*overrides, "env.coach=off", "env.sandbox=calculator"])
    none: Policies = None  # type: ignore[assignment]  # nothing is played
    with make_worker(config, none, "train") as training:
        assert set(training.families) == {"classification", "regression"}
        jobs = jobs_of(config, training, 3)
        assert jobs == jobs_of(config, training, 3) != jobs_of(config, training, 4)
        tasks = [job.task_id for job in jobs]
        assert tasks[::2] == tasks[1::2]
        assert len({job.seed for job in jobs}) == 16
        kinds = [family for task in tasks[::2] for family, ids in training.families.items() if task in ids]
        assert Counter(kinds) == {"classification": 4, "regression": 4}
