"""Which actions are trained on, the penalty for length, and importance weights."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from learner_helpers import make_sample
from mappa_rl.algos.filters import choose
from mappa_rl.algos.importance import apply_importance_weights
from mappa_rl.config import Algo, Rollout
from mappa_rl.types import Floats, Sample


def grouped(task: str, rewards: list[float], *, agent: str = "a_0", length: int = 2) -> list[Sample]:
    made = [make_sample([(1, length)], [reward], seed=k, agent=agent) for k, reward in enumerate(rewards)]
    return [dataclasses.replace(sample, group=task, episode=k) for k, sample in enumerate(made)]


def test_by_default_nothing_changes() -> None:
    samples = grouped("t", [1.0, 1.0])
    assert choose(samples, Algo(), Rollout()) == (samples, {})
    same = apply_importance_weights(samples, Fixed([]), Algo())
    assert same.samples == samples
    assert same.stats == {}
    advantages = [np.ones(3, np.float32)] * 2
    assert same.weigh(advantages) == advantages


def test_truncated_actions_are_left_out() -> None:
    sample = make_sample([(1, 2), (1, 2)], [1.0, 2.0])
    spans = (sample.spans[0], dataclasses.replace(sample.spans[1], truncated=True))
    (found,), _ = choose([dataclasses.replace(sample, spans=spans)], Algo(mask_truncated=True), Rollout())
    assert [span.valid for span in found.spans] == [True, False]


@pytest.mark.parametrize(("length", "reward"), [(4, 7.0), (6, 7.0), (7, 6.0), (8, 5.0), (10, 3.0), (12, 3.0)])
def test_the_last_tokens_before_the_limit_cost_points(length: int, reward: float) -> None:
    algo = Algo(overlong_penalty=4.0, overlong_buffer=4)
    (found,), stats = choose(grouped("t", [7.0], length=length), algo, Rollout(max_new_tokens=10))
    assert found.spans[0].reward == pytest.approx(reward)
    assert stats == {"overlong": float(length > 6)}


def test_groups_with_equal_rewards_are_counted_and_left_out_if_asked() -> None:
    samples = [*grouped("t", [5.0, 5.0]), *grouped("t", [5.0, 6.0], agent="b_0"), *grouped("u", [1.0, 1.0])]
    rollout = Rollout(group_size=2)
    kept, stats = choose(samples, Algo(), rollout)
    assert (kept, stats) == (samples, {"zero_variance_groups": pytest.approx(2 / 3)})
    kept, _ = choose(samples, Algo(drop_zero_variance_groups=True), rollout)
    assert [sample.spans[0].valid for sample in kept] == [False, False, True, True, False, False]


class Fixed:
    """A learner that gives given log-probs."""

    def __init__(self, logprobs: list[Floats]) -> None:
        self.found = logprobs

    def logprobs(self, samples: object) -> list[Floats]:
        return self.found


@pytest.mark.parametrize(("kind", "factors"), [("tis", [0, 1.5, 2, 0.5, 1]), ("icepop", [0, 1.5, 0, 0, 1])])
def test_weights_against_the_samplers_log_probs(kind: str, factors: list[float]) -> None:
    sample = make_sample([(1, 4)], [1.0])
    shift = np.log(np.array([9, 1.5, 8, 0.1, 1]))  # the context token's must not count
    own = (sample.logprobs + shift * sample.action_mask).astype(np.float32)
    algo = Algo(importance_sampling=kind, importance_bounds=(0.5, 2.0))  # type: ignore[arg-type]
    found = apply_importance_weights([sample], Fixed([own]), algo)
    (weighted,) = found.weigh([np.array([0, 1, 1, 1, 1], np.float32)])
    assert weighted == pytest.approx(factors, abs=1e-5)
    assert np.array_equal(found.samples[0].logprobs, own)  # the old policy is the learner's
    assert found.stats["mismatch_max"] == pytest.approx(math.log(10), abs=1e-5)
    assert found.stats["mismatch"] == pytest.approx(np.abs(shift[1:]).mean(), abs=1e-5)
    assert found.stats["importance_weight"] == pytest.approx(sum(factors) / 4, abs=1e-5)
    assert found.stats["importance_outside_fraction"] == 0.5
