"""Intervals that cover, pairs that pair, groups and repeats that count for what they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.errors import StatsError
from mappa_env.statistics.intervals import mean_ci, paired_delta, share_ci, student, wilson

numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


@given(numbers)
def test_the_interval_holds_the_mean_and_stays_within_the_data(values):
    found = mean_ci(values, resamples=300)
    assert found.mean == pytest.approx(np.mean(values))
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
    assert found == mean_ci(values, resamples=300)


def test_intervals_over_few_seeds_are_students():
    found = student([0.5, 0.6, 0.7])
    assert found.mean == pytest.approx(0.6)
    assert found.high - found.mean == pytest.approx(4.302653 * 0.1 / 3**0.5)
    with pytest.raises(StatsError, match="needs two or more"):
        student([0.5])


def test_ninety_five_per_cent_intervals_cover_about_that_often():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        found = mean_ci(rng.normal(3.0, 2.0, 60), resamples=500)
        hits += found.low <= 3.0 <= found.high
    assert 180 <= hits <= 199


def test_known_width():
    values = np.random.default_rng(1).normal(0, 1, 400)
    found = mean_ci(values)
    half = 1.96 * values.std() / 20
    assert found.high - found.mean == pytest.approx(half, rel=0.1)
    assert found.mean - found.low == pytest.approx(half, rel=0.1)
    wider = mean_ci(values, 0.99)
    assert wider.low < found.low < found.high < wider.high


def test_differences_between_groups_are_not_noise():
    values, groups = [0.0] * 50 + [1.0] * 50, ["easy"] * 50 + ["hard"] * 50
    assert mean_ci(values, groups=groups) == (0.5, 0.5, 0.5, 100)
    assert mean_ci(values).low < 0.45


def test_resampling_in_chunks_gives_the_whole(monkeypatch):
    values = np.random.default_rng(2).normal(0, 1, 50)
    monkeypatch.setattr("mappa_env.statistics.intervals._CHUNK", 700)
    small = mean_ci(values)
    monkeypatch.undo()
    assert small == pytest.approx(mean_ci(values), abs=1e-12)


def test_wilson_against_published_values():
    assert wilson(0, 10) == pytest.approx((0.0, 0.0, 0.2775, 10), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((1.0, 0.7225, 1.0, 10), abs=1e-4)
    assert wilson(81, 263) == pytest.approx((0.3080, 0.2553, 0.3662, 263), abs=1e-4)  # Newcombe 1998


def test_pairing_removes_what_both_share():
    rng = np.random.default_rng(3)
    hard = rng.normal(0, 10, 200)
    found = paired_delta(hard, hard + 0.5 + rng.normal(0, 0.1, 200))
    assert 0.45 < found.low < found.mean < found.high < 0.55


def test_repeats_of_a_problem_are_one_piece_of_evidence():
    rng = np.random.default_rng(4)
    per_problem = rng.normal(0.2, 1.0, 40)
    after = np.repeat(per_problem, 25)
    problems = np.repeat(np.arange(40), 25).tolist()
    naive = paired_delta(np.zeros(1000), after)
    fair = paired_delta(np.zeros(1000), after, problems=problems)
    assert (fair.n, naive.n) == (40, 1000)
    assert fair.mean == pytest.approx(naive.mean)
    assert fair.high - fair.low > 4 * (naive.high - naive.low)
    grouped = paired_delta(np.zeros(1000), after, problems=problems, groups=[p % 2 for p in problems])
    assert grouped.mean == pytest.approx(naive.mean)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mean_ci([]),
        lambda: mean_ci([1.0, float("nan")]),
        lambda: mean_ci([[1.0], [2.0]]),
        lambda: mean_ci([1.0], confidence=95),
        lambda: mean_ci([1.0, 2.0], groups=["a"]),
        lambda: paired_delta([1.0], [1.0, 2.0]),
        lambda: paired_delta([1.0, 2.0], [1.0, 2.0], problems=[1, 1], groups=["a", "b"]),
        lambda: wilson(3, 2),
        lambda: wilson(0, 0),
    ],
)
def test_data_that_cannot_give_a_figure_are_refused(call):
    with pytest.raises(StatsError):
        call()


@pytest.mark.parametrize("rate", [0.03, 0.05, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(("draws", "alike"), [(1, 0.0), (8, 0.0), (8, 0.1), (8, 0.3), (8, 0.7)])
def test_intervals_of_shares_cover_near_the_ends_too(rate, draws, alike):
    """32 tasks; ``alike``: how far the episodes of one task agree, 0 to 1."""
    rng, hits, rounds = np.random.default_rng(0), 0, 2000
    for _ in range(rounds):
        within = (1 - alike) / alike if alike else None
        chances = rng.beta(rate * within, (1 - rate) * within, 32) if within else np.full(32, rate)
        found = share_ci(rng.binomial(draws, chances) / draws, draws)
        hits += found.low <= rate <= found.high
    assert hits / rounds >= 0.92


def test_shares_of_one_draw_have_wilsons_interval():
    assert share_ci([0.0] * 30) == wilson(0, 30)
    assert share_ci([0.0] * 30).high > 0.1
    assert share_ci([1.0]).low < 0.25
    assert share_ci([1, 0, 0, 1, 1]) == pytest.approx(wilson(3, 5))


def test_more_draws_of_a_task_narrow_the_interval_as_far_as_they_differ():
    alike, apart = share_ci([0.0, 1.0] * 16, 8), share_ci([0.5] * 32, 8)
    one = wilson(16, 32)
    assert (alike.low, alike.high) == pytest.approx((one.low, one.high))
    assert apart.high - apart.low < 0.6 * (one.high - one.low)
    assert alike.n == apart.n == 32


@pytest.mark.parametrize(("shares", "draws"), [([1.2], 1), ([-0.1], 1), ([0.5], 0), ([], 1)])
def test_what_is_no_share_is_refused(shares, draws):
    with pytest.raises(StatsError):
        share_ci(shares, draws)
