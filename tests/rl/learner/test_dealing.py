"""Minibatches are drawn over the whole batch, and dealt to processes by tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_rl.learner.dealing import deal, shares
from mappa_rl.learner.minibatches import draw
from mappa_rl.learner.packing import split_by_tokens, split_evenly

Lengths = st.lists(st.integers(1, 500), max_size=40)


@given(Lengths, st.integers(1, 5))
def test_every_sample_goes_to_one_process_and_loads_are_even(lengths: list[int], count: int) -> None:
    dealt = shares(lengths, count)
    assert sorted(i for mine in dealt for i in mine) == list(range(len(lengths)))
    loads = [sum(lengths[i] for i in mine) for mine in dealt]
    assert max(loads) - min(loads) <= max(lengths, default=0)


@given(Lengths.filter(bool), Lengths, st.integers(1, 3), st.integers(1, 5), st.integers(0, 9))
def test_every_pass_has_each_sample_once_and_no_process_changes_a_minibatch(
    policy: list[int], shown: list[int], epochs: int, minibatches: int, seed: int
) -> None:
    lengths = [policy, shown]
    random = np.random.default_rng(seed)
    drawn = draw(random, [range(len(each)) for each in lengths], epochs=epochs, minibatches=minibatches)
    assert len(drawn.chosen) == epochs * minibatches
    for term, each in enumerate(lengths):
        for epoch in range(epochs):
            once = drawn.chosen[epoch * minibatches : (epoch + 1) * minibatches]
            assert sorted(i for update in once for i in update[term]) == list(range(len(each)))
            sizes = [len(update[term]) for update in once]
            assert max(sizes) - min(sizes) <= 1
    for count in (1, 2, 3, 8):
        parts = deal(drawn, lengths, count)
        assert [part.minibatches.random for part in parts] == [drawn.random] * count
        for at, update in enumerate(drawn.chosen):
            for term, chosen in enumerate(update):
                dealt = [[part.held[term][i] for i in part.minibatches.chosen[at][term]] for part in parts]
                assert sorted(i for mine in dealt for i in mine) == sorted(chosen)
                loads = [sum(lengths[term][i] for i in mine) for mine in dealt]
                assert max(loads) - min(loads) <= max((lengths[term][i] for i in chosen), default=0)
        for part in parts:  # nothing is sent that no update uses
            for term, held in enumerate(part.held):
                used = {i for update in part.minibatches.chosen for i in update[term]}
                assert used == set(range(len(held)))


def test_a_draw_leaves_the_generator_until_its_state_is_taken_over() -> None:
    random, same = np.random.default_rng(4), np.random.default_rng(4)
    first = draw(random, [range(20)], epochs=2, minibatches=3)
    assert draw(random, [range(20)], epochs=2, minibatches=3) == first
    order = np.concatenate([same.permutation(20), same.permutation(20)]).tolist()
    assert [i for (chosen,) in first.chosen for i in chosen] == order
    assert first.random == same.bit_generator.state
    random.bit_generator.state = dict(first.random)
    assert draw(random, [range(20)], epochs=2, minibatches=3).chosen != first.chosen
    assert draw(random, [[], [1, 2]], epochs=2, minibatches=3) == ([], random.bit_generator.state)


@pytest.mark.parametrize("processes", [8, 16])
def test_processes_are_busy_in_every_update(processes: int) -> None:
    """Of the time until the last process is done with an update, the others work 95 %."""
    random = np.random.default_rng(0)
    tokens, waited = 0, 0
    for seed in range(5):
        lengths = (1000 * np.exp(random.normal(0, 0.8, 640))).astype(int).tolist()
        drawn = draw(np.random.default_rng(seed), [range(640)], epochs=1, minibatches=4)
        parts = deal(drawn, [lengths], processes)
        for at in range(4):
            loads = [sum(lengths[p.held[0][i]] for i in p.minibatches.chosen[at][0]) for p in parts]
            tokens += sum(loads)
            waited += processes * max(loads)
    assert tokens / waited > 0.95


@given(Lengths.filter(bool), st.integers(1, 800), st.integers(0, 3))
def test_even_micro_batches_hold_every_sample_and_the_budget(
    lengths: list[int], budget: int, more: int
) -> None:
    count = len(split_by_tokens(lengths, budget)) + more
    parts = split_evenly(lengths, budget, count)
    if parts is None:
        return
    sizes = [sum(lengths[i] for i in part) for part in parts]
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or size <= budget for part, size in zip(parts, sizes, strict=True))
    assert len(parts) == min(count, len(lengths))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= max(lengths)


def test_micro_batches_are_not_even_at_the_price_of_the_budget() -> None:
    assert split_evenly([3, 3, 2, 2, 2], 6, 2) is None  # longest first puts 7 on one side
    assert split_by_tokens([3, 3, 2, 2, 2], 6) == [[2, 3, 4], [0, 1]]
    assert split_evenly([4, 3, 3, 2], 6, 2) == [[0, 3], [1, 2]]
