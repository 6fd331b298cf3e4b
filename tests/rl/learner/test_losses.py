"""The clipped loss: values, gradients, extremes."""

from __future__ import annotations

import math

import pytest
import torch

from learner_helpers import make_batch
from mappa_rl.config import Algo
from mappa_rl.learner.forward import Scores
from mappa_rl.learner.losses import Mass, Objective, Tokens, likelihood_loss
from mappa_rl.learner.packing import pack
from mappa_rl.learner.terms import PolicyLoss, Totals


def loss_of(ratio, advantages, weights=None, total=None, clip=0.2):
    logprobs = torch.tensor([math.log(r) for r in ratio], dtype=torch.float64, requires_grad=True)
    mass = torch.ones(len(ratio)) if weights is None else torch.tensor(weights)
    found = Objective(Algo(clip_low=clip))(
        Tokens(logprobs, torch.zeros(len(ratio)), torch.tensor(advantages), torch.arange(len(ratio))),
        Mass(mass, mass, float(mass.sum()) if total is None else total),
        torch.zeros(len(ratio)),
        torch.zeros(len(ratio)),
    )
    found.value.backward()
    return found, logprobs.grad


def test_clips_only_where_it_lowers_the_objective():
    found, grad = loss_of([1.5, 1.5, 0.5, 0.5], [1.0, -1.0, 1.0, -1.0])
    assert found.value.item() == pytest.approx(-(1.2 - 1.5 + 0.5 - 0.8) / 4)
    assert grad.tolist() == pytest.approx([0, 1.5 / 4, -0.5 / 4, 0])
    assert float(found.sums["clip_fraction"]) == 2


def test_on_policy_gradient_is_the_advantage():
    found, grad = loss_of([1.0, 1.0], [2.0, -3.0])
    assert grad.tolist() == pytest.approx([-1.0, 1.5])
    assert float(found.sums["kl"]) == pytest.approx(0)


def test_weights_mask_and_the_count_is_the_callers():
    _, grad = loss_of([1.0, 1.1, 0.9], [1.0, 5.0, 1.0], weights=[1.0, 0.0, 1.0], total=10.0)
    assert grad.tolist() == pytest.approx([-0.1, 0, -0.09])


def test_halves_add_up_to_the_whole():
    ratio, advantages = [1.3, 0.9, 1.0, 0.6], [1.0, -2.0, 0.5, 3.0]
    whole, _ = loss_of(ratio, advantages, total=4.0)
    parts = [loss_of(ratio[k : k + 2], advantages[k : k + 2], total=4.0)[0] for k in (0, 2)]
    assert whole.value.item() == pytest.approx(sum(part.value.item() for part in parts))


@pytest.mark.parametrize("change", [-500.0, 500.0])
def test_extreme_log_ratios_stay_finite(change):
    logprobs = torch.tensor([change], requires_grad=True)
    one = torch.ones(1)
    found = Objective(Algo())(
        Tokens(logprobs, torch.zeros(1), -one, torch.zeros(1, dtype=torch.long)),
        Mass(one, one, 1.0),
        one,
        one,
    )
    found.value.backward()
    assert torch.isfinite(found.value)
    assert torch.isfinite(logprobs.grad).all()
    assert all(math.isfinite(float(value)) for value in found.sums.values())


def test_statistics_are_weighted_sums():
    found, _ = loss_of([2.0, 1.0], [1.0, 1.0], weights=[0.5, 1.0])
    assert float(found.sums["kl"]) == pytest.approx(0.5 * (1 - math.log(2)))


def test_the_mismatch_is_measured_until_the_first_update():
    samples, advantages, weights = make_batch(2)
    weights = [0.5 * w for w in weights]
    batch = pack(samples, weights, advantages)
    off = torch.linspace(-1, 1, len(batch.targets))
    scores = Scores(torch.from_numpy(batch.logprobs) + off, torch.zeros_like(off))
    loss = PolicyLoss(Objective(Algo()), None)
    totals = Totals(1.0, 1.0)
    assert float(loss(scores, batch, totals).sums["mismatch"]) == pytest.approx(float(0.5 * off.abs().sum()))
    assert loss.mismatch_max == pytest.approx(1.0)
    loss.updated = True
    assert "mismatch" not in loss(scores, batch, totals).sums


def test_likelihood_is_a_weighted_mean():
    logprobs = torch.tensor([-1.0, -3.0])
    assert float(likelihood_loss(logprobs, torch.tensor([1.0, 0.1]), total=1.1).value) == pytest.approx(
        1.3 / 1.1
    )
