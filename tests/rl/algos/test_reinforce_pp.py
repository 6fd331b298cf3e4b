"""The rule of REINFORCE++, by hand-computed numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from learner_helpers import make_sample
from mappa_rl.algos import ALGORITHMS, make_algorithm
from mappa_rl.algos.reinforce_pp import ReinforcePP
from mappa_rl.errors import ConfigError, ContextError
from mappa_rl.types import Sample, Span


def two_turns(policy: str = "p", scale: float = 1.0) -> Sample:
    """Positions 0-5 of the table follow one context token: mask 1 1 0 0 1 1, rewards 1 and 3."""
    mask = np.array([0, 1, 1, 0, 0, 1, 1], np.bool_)
    spans = (Span(1, 3, 1.0 * scale, True, 0), Span(5, 7, 3.0 * scale, True, 1))
    return Sample(np.arange(7), mask, np.where(mask, -1, 0).astype(np.float32), spans, policy, "a_0")


KL = np.array([7, 1, 1, 7, 7, 1, 1.0])  # 1 on action tokens; 7 elsewhere, which must be ignored
TABLE = [
    ("return_to_go", 1.0, 0.0, [4, 4, 3, 3]),
    ("return_to_go", 0.5, 0.0, [2.5, 2.5, 3, 3]),
    ("return_to_go", 1.0, 0.1, [3.6, 3.7, 2.8, 2.9]),
    ("per_action", 1.0, 0.0, [1, 1, 3, 3]),
    ("per_action", 0.5, 0.0, [1, 1, 3, 3]),
    ("per_action", 1.0, 0.1, [0.8, 0.9, 2.8, 2.9]),
]


@pytest.mark.parametrize(("mode", "gamma", "beta", "expected"), TABLE)
def test_two_turn_table(mode, gamma, beta, expected):
    (found,) = ReinforcePP(mode, gamma, kl_coef=beta, reward_scale=1.0).returns([two_turns()], [KL])
    assert found[[1, 2, 5, 6]] == pytest.approx(expected)
    assert not found[[0, 3, 4]].any()


@pytest.mark.parametrize(("mode", "sign"), [("return_to_go", 1), ("per_action", -1)])
def test_normalised_with_biased_variance(mode, sign):
    found = ReinforcePP(mode, kl_coef=0, reward_scale=1.0).token_advantages([two_turns()])
    assert found.advantages[0][[1, 2, 5, 6]] == pytest.approx([sign, sign, -sign, -sign])
    assert found.weights[0].tolist() == [0, 1, 1, 0, 0, 1, 1]
    assert found.stats["zero_variance"] == 0


def test_policies_are_normalised_apart():
    rule = ReinforcePP(kl_coef=0, reward_clip=100, reward_scale=1.0)
    for samples in ([two_turns("p")], [two_turns("q", scale=10)]):
        (advantages,) = rule.token_advantages(samples).advantages
        assert advantages[[1, 2, 5, 6]] == pytest.approx([-1, -1, 1, 1])
    pooled = rule.token_advantages([two_turns("p"), two_turns("p", scale=10)])
    assert pooled.stats["return_mean"] == pytest.approx(11)
    assert pooled.stats["return_std"] ** 2 == pytest.approx(131.5)
    assert pooled.advantages[0][[1, 2, 5, 6]] == pytest.approx([-0.872, -0.872, -0.698, -0.698], abs=1e-3)


def test_kl_comes_from_the_samples_log_probs():
    sample = two_turns()
    reference = np.where(sample.action_mask, -2.0, 5.0).astype(np.float32)  # kl = 1; environment ignored
    found = ReinforcePP("per_action", kl_coef=0.1, reward_scale=1.0).token_advantages([sample], [reference])
    expected = np.array([0.8, 0.9, 2.8, 2.9])
    assert found.advantages[0][[1, 2, 5, 6]] == pytest.approx((expected - expected.mean()) / expected.std())
    assert found.stats["reference_kl"] == pytest.approx(1)


def test_invalid_actions_count_nowhere():
    whole = two_turns()
    broken = dataclasses.replace(
        whole, spans=(whole.spans[0], dataclasses.replace(whole.spans[1], valid=False, reward=0.0))
    )
    other = make_sample([(1, 2)], [2.0], seed=1)
    found = ReinforcePP(kl_coef=0, reward_scale=1.0).token_advantages([broken, other])
    assert found.weights[0].tolist() == [0, 1, 1, 0, 0, 0, 0]
    assert not found.advantages[0][3:].any()
    assert found.advantages[0][1:3] == pytest.approx([-1, -1])
    assert found.stats["invalid"] == 1
    assert found.stats["reward"] == pytest.approx(1.5)
    (returned,) = ReinforcePP("return_to_go", 0.5, kl_coef=0, reward_scale=1.0).returns(
        [broken], [np.zeros(7)]
    )
    assert returned[1:3] == pytest.approx([1, 1])


def test_zero_variance_and_no_valid_action_give_no_signal():
    same = [make_sample([(2, 3)], [0.7], seed=k) for k in range(3)]
    found = ReinforcePP(kl_coef=0, reward_scale=1.0).token_advantages(same)
    assert all(not advantages.any() for advantages in found.advantages)
    assert found.stats["zero_variance"] == 1
    none = ReinforcePP(kl_coef=0, reward_scale=1.0).token_advantages(
        [make_sample([(2, 3)], [np.nan], valid=[False])]
    )
    assert not none.weights[0].any()
    assert not none.advantages[0].any()
    assert np.isfinite(list(none.stats.values())).all()


def test_rewards_are_scaled_then_clipped_before_the_baseline():
    samples = [make_sample([(1, 1)], [reward], seed=k) for k, reward in enumerate([0.0, 40.0, 1000.0])]
    returns = ReinforcePP(reward_scale=0.1, reward_clip=5, kl_coef=0).returns(samples, [np.zeros(2)] * 3)
    assert [float(r[1]) for r in returns] == pytest.approx([0, 4, 5])


def test_return_to_go_crosses_a_prefix_break_but_not_a_segment():
    first = make_sample([(2, 1)], [1.0], seed=0)
    second = make_sample([(2, 1)], [2.0], seed=1, part=1)
    rule, kl = ReinforcePP("return_to_go", 0.5, kl_coef=0, reward_scale=1.0), [np.zeros(3)] * 3
    got = rule.returns([first, second, first], kl)
    assert [float(r[2]) for r in got] == pytest.approx([2, 2, 1])
    with pytest.raises(ContextError, match="order of merge_turns"):
        rule.returns([second, first], kl)
    with pytest.raises(ContextError, match="order of merge_turns"):
        rule.returns([make_sample([(2, 1)], [1.0], agent="b_0"), second], kl)


def test_advantages_ignore_the_order_of_samples():
    samples = [make_sample([(2, 3), (1, 4)], [k, 7.0 - k], seed=k) for k in range(5)]
    rule = ReinforcePP("return_to_go", 0.9, kl_coef=0, reward_scale=1.0)
    there, back = (
        rule.token_advantages(samples).advantages,
        rule.token_advantages(samples[::-1]).advantages[::-1],
    )
    for a, b in zip(there, back, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_registry_names_remedies():
    assert "reinforce_pp" in ALGORITHMS.names()
    assert make_algorithm("reinforce_pp", mode="return_to_go", gamma=0.9).needs_reference
    assert not make_algorithm("reinforce_pp", kl_coef=0.0).needs_reference
    with pytest.raises(ConfigError, match="Did you mean 'reinforce_pp'"):
        make_algorithm("reinforce")
    with pytest.raises(ConfigError, match="Did you mean 'gamma'"):
        make_algorithm("reinforce_pp", gama=1.0)
    for bad in ({"gamma": 1.5}, {"mode": "steps"}, {"kl_coef": -1}, {"reward_clip": 0}):
        with pytest.raises(ConfigError):
            make_algorithm("reinforce_pp", **bad)
    with pytest.raises(ConfigError, match="needs the log-probs of a reference"):
        ReinforcePP(kl_coef=0.1, reward_scale=1.0).token_advantages([two_turns()])
