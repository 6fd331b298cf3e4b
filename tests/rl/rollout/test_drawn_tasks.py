"""Which training tasks a run draws: a sample of them, in passes or with replacement."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError
from mappa_rl.rollout.jobs import in_passes, jobs_of, training_tasks, validation_tasks

IDS = [f"task-{n}" for n in range(20)]


@dataclass
class Worker:
    """The tasks of a rollout worker."""

    task_ids: list[str] = field(default_factory=lambda: list(IDS))
    families: dict[str, list[str]] = field(default_factory=lambda: {"even": IDS[::2], "odd": IDS[1::2]})
    script: str | None = None


def drawn(steps: int, *overrides: str) -> list[str]:
    config = load_config("demo", ["rollout.episodes_per_step=4", "rollout.group_size=2", *overrides])
    jobs = [job for step in range(1, steps + 1) for job in jobs_of(config, Worker(), step)]  # type: ignore[arg-type]
    assert [job.task_id for job in jobs[::2]] == [job.task_id for job in jobs[1::2]], "two episodes of a task"
    return [str(job.task_id) for job in jobs[::2]]


def test_a_sample_is_the_same_for_every_seed_of_a_run() -> None:
    samples = [set(drawn(100, "rollout.tasks=7", f"run.seed={seed}")) for seed in (0, 1)]
    assert samples[0] == samples[1]
    assert len(samples[0]) == 7
    assert samples[0] != set(drawn(100, "rollout.tasks=7", "rollout.tasks_seed=1"))


def test_a_sample_leaves_validation_tasks_out_and_keeps_families() -> None:
    wanted = ["rollout.tasks=10", "eval.validation_tasks=5"]
    config = load_config("demo", wanted)
    assert not {*training_tasks(config, IDS)} & {*validation_tasks(config, IDS)}
    for how in ("proportional", "equal"):
        assert set(drawn(60, *wanted, f"rollout.stratify={how}")) == {*training_tasks(config, IDS)}


def test_too_large_a_sample_is_refused() -> None:
    config = load_config("demo", ["rollout.tasks=16", "eval.validation_tasks=5"])
    with pytest.raises(ConfigError, match=r"rollout\.tasks=16 exceeds the 15 training tasks that eval"):
        training_tasks(config, IDS)


def test_passes_take_every_task_once() -> None:
    found = drawn(14, "rollout.tasks=7", "rollout.draw=passes")
    passes = [found[first : first + 7] for first in range(0, 28, 7)]
    assert len({tuple(each) for each in passes}) > 1, "in another order every time"
    assert all(set(each) == set(passes[0]) for each in passes)
    assert found != drawn(14, "rollout.tasks=7", "rollout.draw=passes", "run.seed=1")


def test_single_episodes_pass_through_all_tasks_too() -> None:
    config = load_config("demo", ["rollout.episodes_per_step=5", "rollout.draw=passes"])
    jobs = [job.task_id for step in range(1, 5) for job in jobs_of(config, Worker(), step)]  # type: ignore[arg-type]
    assert Counter(jobs) == Counter(IDS)


def test_passes_and_strata_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"rollout\.draw=passes takes every task once"):
        load_config("demo", ["rollout.draw=passes", "rollout.stratify=equal"])


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 40), st.integers(0, 3))
def test_draws_do_not_depend_on_where_a_step_begins(size: int, first: int, count: int, seed: int) -> None:
    ids = IDS[:size]
    whole = in_passes(ids, seed, 0, first + count)
    assert in_passes(ids, seed, first, count) == whole[first:]
    full = whole[: len(whole) // size * size]
    assert set(Counter(full).values()) <= {len(full) // size}
