"""Turns become samples, samples become packed micro-batches: nothing lost, nothing mixed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner_helpers import VOCAB, make_model, make_reference, make_sample, make_scorer
from mappa_rl.errors import ContextError
from mappa_rl.learner.packing import pack, split_by_tokens
from mappa_rl.learner.samples import check_fidelity, merge_turns
from mappa_rl.types import Span, Turn


def turn(
    step: int, context: list[int], action: list[int], *, at: int = 0, agent: str = "a_0", **changes
) -> Turn:
    return Turn(
        agent=agent,
        policy=agent,
        step=step,
        turn=at,
        context_ids=context,
        action_ids=action,
        logprobs=[-0.5 - step] * len(action),
        stopped="eos",
        reward=float(step),
        valid=True,
        stratum=("math", "a", at),
    )


def test_growing_contexts_become_one_sample():
    samples = merge_turns(
        [turn(0, [1, 2], [3, 4]), turn(1, [1, 2, 3, 4, 5], [6], at=1), turn(2, [1], [9], agent="b_0")]
    )
    assert [s.agent for s in samples] == ["a_0", "b_0"]
    first = samples[0]
    assert first.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert first.action_mask.tolist() == [False, False, True, True, False, True]
    assert first.logprobs.tolist() == [0, 0, -0.5, -0.5, 0, -1.5]
    assert first.spans == (
        Span(2, 4, 0.0, True, 0, ("math", "a", 0)),
        Span(5, 6, 1.0, True, 1, ("math", "a", 1)),
    )
    assert first.part == 0


def test_a_prefix_break_starts_a_new_part():
    broken = merge_turns(
        [turn(0, [1, 2], [3]), turn(1, [1, 9, 3, 5], [6], at=1), turn(2, [1, 9, 3, 5, 6], [7], at=2)]
    )
    assert [(s.part, len(s.spans)) for s in broken] == [(0, 1), (1, 2)]
    assert broken[1].ids.tolist() == [1, 9, 3, 5, 6, 7]
    edited = merge_turns([turn(0, [1, 2], [3, 4]), turn(1, [1, 2, 3, 8], [6], at=1)])  # action altered
    assert [s.part for s in edited] == [0, 1]
    again = merge_turns([turn(0, [1, 2], [3]), turn(1, [1, 2, 3, 4], [5])])  # a new stay, same ids
    assert [s.part for s in again] == [0, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"context_ids": []},
        {"action_ids": [], "logprobs": []},
        {"logprobs": [-1.0]},
        {"logprobs": [-1.0, float("nan")]},
        {"logprobs": [-1.0, 0.5]},
        {"reward": float("nan")},
    ],
)
def test_impossible_turns_are_refused(changes):
    with pytest.raises(ContextError, match="a_0"):
        merge_turns([dataclasses.replace(turn(0, [1, 2], [3, 4]), **changes)])


def test_turns_out_of_order_are_refused():
    with pytest.raises(ContextError, match="sort the turns"):
        merge_turns([turn(1, [1], [2]), turn(0, [1], [2])])


def test_check_finds_disagreements():
    turns = [turn(0, [1, 2], [3, 4, 5])]
    (sample,) = merge_turns(turns)
    (span,) = sample.spans
    fewer, more = sample.action_mask.copy(), sample.action_mask.copy()
    fewer[-1], more[1] = False, True
    noisy = sample.logprobs.copy()
    noisy[1] = -1
    for changes, said in (
        ({"action_mask": fewer}, "marks tokens other"),
        ({"action_mask": more}, "marks tokens other"),
        ({"logprobs": noisy}, "marks tokens other"),
        ({"logprobs": 2 * sample.logprobs}, "log-probs of the training sequence differ"),
        ({"spans": ()}, "contain every sampled step once"),
        ({"spans": (span, span)}, "contain every sampled step once"),
        ({"spans": (dataclasses.replace(span, reward=9.0),)}, "reward of the training sequence differ"),
        ({"spans": (dataclasses.replace(span, start=0),)}, "marks tokens other"),
        ({"ids": sample.ids + 1}, "context and action ids of the training sequence differ"),
    ):
        with pytest.raises(ContextError, match=said):
            check_fidelity(turns, [dataclasses.replace(sample, **changes)])


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_split_keeps_everything_within_budget(lengths, budget):
    parts = split_by_tokens(lengths, budget)
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    assert all(len(part) == 1 or sum(lengths[i] for i in part) <= budget for part in parts)


def test_packed_fields():
    samples = [make_sample([(2, 3)], [1.0], seed=1), make_sample([(1, 2), (2, 1)], [1.0, 2.0], seed=2)]
    batch = pack(samples, [s.action_mask for s in samples])
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5]
    assert batch.cu_seqlens.tolist() == [0, 5, 11]
    assert batch.rows.tolist() == [1, 2, 3, 5, 6, 9]
    assert batch.targets.tolist() == [*samples[0].ids[2:5], *samples[1].ids[1:3], samples[1].ids[5]]
    with pytest.raises(ContextError, match="first token"):
        pack(samples, [np.ones(5), np.ones(6)])


def test_turns_sampled_by_different_weights_are_one_sample_with_their_own_log_probs():
    """Weights may change between two turns of a stay: each token keeps what it was sampled with."""
    first = turn(0, [1, 2], [3, 4])
    second = dataclasses.replace(turn(1, [1, 2, 3, 4, 5], [6], at=1), logprobs=[-7.0])
    (sample,) = merge_turns([first, second])
    assert sample.logprobs.tolist() == [0, 0, -0.5, -0.5, 0, -7.0]
    check_fidelity([first, second], [sample])


def padded_logprobs(model, sample):
    """The ordinary way: one sequence, a full forward pass, shifted."""
    with torch.no_grad():
        logits = model(torch.from_numpy(sample.ids)[None], use_cache=False).logits[0]
    found = logits.log_softmax(-1)[:-1].gather(1, torch.from_numpy(sample.ids)[1:, None])[:, 0]
    return np.concatenate([[0], found.numpy()]) * sample.action_mask


def test_packed_log_probs_equal_single_ones():
    model = make_model()
    samples = [make_sample([(2 + k, 3), (1, 1 + k)], [1.0, 2.0], seed=k) for k in range(6)]
    expected = [padded_logprobs(model, sample) for sample in samples]
    for budget in (1, 20, 1000):
        for found, right in zip(
            make_reference(model, tokens_per_micro_batch=budget).logprobs(samples), expected, strict=True
        ):
            np.testing.assert_allclose(found, right, atol=1e-5)
    assert model.config._attn_implementation == "sdpa"


def test_neighbours_in_a_pack_do_not_matter():
    scorer = make_scorer(make_model())
    sample, others = make_sample([(4, 6)], [1.0]), [make_sample([(3, 9)], [1.0], seed=k) for k in (1, 2)]
    alone = scorer(pack([sample], [sample.action_mask])).logprobs
    for other in others:
        both = scorer(pack([other, sample], [other.action_mask, sample.action_mask])).logprobs
        torch.testing.assert_close(both[9:], alone, atol=1e-5, rtol=0)


def test_temperature_and_entropy():
    model, sample = make_model(), make_sample([(3, 4)], [1.0])
    batch = pack([sample], [sample.action_mask])
    logits = model(torch.from_numpy(sample.ids)[None]).logits[0, 2:6] / 0.5
    scores = make_scorer(model, temperature=0.5)(batch)
    right = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(
        scores.logprobs, right.log_prob(torch.from_numpy(sample.ids[3:7])), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(scores.entropy, right.entropy(), atol=1e-5, rtol=0)


def test_chunks_of_the_softmax_change_nothing():
    samples = [make_sample([(3, 7)], [1.0], seed=k) for k in range(3)]
    batch = pack(samples, [s.action_mask for s in samples])

    def run(chunk=None):
        model = make_model()
        scores = make_scorer(model, chunk=chunk)(batch)
        scores.logprobs.sum().backward()
        return scores.logprobs, torch.cat([p.grad.flatten() for p in model.parameters()])

    whole = run()
    for a, b in zip(run(4 * VOCAB), whole, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
