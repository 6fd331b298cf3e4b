"""Importance weights in the update are those of a scoring before it."""

from __future__ import annotations

import numpy as np
import pytest

from learner_helpers import make_batch, make_learner, make_model, parameters
from mappa_rl.algos.importance import apply_importance_weights, in_the_update
from mappa_rl.config import Algo, load_config
from mappa_rl.errors import LearnerError
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.losses import Objective


@pytest.mark.parametrize("loss", ["ppo", "gspo", "cispo"])
@pytest.mark.parametrize("name", ["tis", "icepop"])
def test_the_only_update_weighs_as_a_scoring_before_it_would(name: str, loss: str) -> None:
    algo = Algo(importance_sampling=name, importance_bounds=(0.5, 1.5), loss=loss, clip_low=0.1)  # type: ignore[arg-type]
    samples, advantages, _ = make_batch()
    weights = [sample.action_mask.astype(np.float32) for sample in samples]
    learners = [make_learner(make_model(), 1e-2, zero_stage=0, tokens_per_micro_batch=60) for _ in range(2)]
    start = parameters(learners[0].model)
    before = apply_importance_weights(samples, learners[0], algo)
    one = learners[0].step(Batch(before.samples, before.weigh(advantages), weights), Objective(algo))
    both = one | before.stats
    untouched = apply_importance_weights(samples, None, algo)
    assert (untouched.samples, untouched.factors, untouched.stats) == (samples, None, {})
    found = learners[1].step(Batch(samples, advantages, weights), Objective(algo, weighs=True))
    assert found == pytest.approx(both, rel=1e-4)
    assert 0 < both["importance_outside_fraction"] < 1
    ends = [parameters(learner.model) for learner in learners]
    assert (ends[0] - ends[1]).abs().max() <= 1e-3 * (ends[0] - start).abs().max()


def test_several_updates_are_refused() -> None:
    learner = make_learner(make_model(), 1e-2, zero_stage=0, minibatches=2)
    algo = Algo(importance_sampling="tis")
    with pytest.raises(LearnerError, match=r"only update of a step, but there are 2"):
        learner.step(Batch(*make_batch()), Objective(algo, weighs=True))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], True),
        (["algo.importance_sampling=none"], False),
        (["optim.minibatches=2"], False),
        (["optim.epochs=2"], False),
        (["algo.kl_coef=0.1", "algo.kl=reward"], False),
        (["algo.kl_coef=0.1", "algo.kl=loss_k2"], True),
    ],
)
def test_who_weighs(settings: list[str], expected: bool) -> None:
    plain = ["algo.importance_sampling=tis", "optim.minibatches=1", "algo.kl_coef=0"]
    assert in_the_update(load_config("demo", [*plain, *settings])) is expected
