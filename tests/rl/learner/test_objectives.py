"""Every loss against a plain loop over tokens, its gradient against autograd, and through the learner."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from learner_helpers import gradient_of, make_batch, make_model

from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError
from mappa_rl.learner import Learner
from mappa_rl.losses import Objective, clip_loss
from mappa_rl.objective import objective_of
from mappa_rl.schedule import Schedule
from mappa_rl.scoring import Reference
from mappa_rl.sections import Algo

OBJECTIVES = [
    Objective(),
    Objective(clip=0.1, clip_high=0.4),
    Objective(clip=0.1, dual_clip=1.2),
    Objective("gspo", clip=0.05, clip_high=0.1),
    Objective("cispo", clip=0.1, clip_high=0.3),
    Objective(kl_estimator="k2", kl_coef=0.5),
    Objective("gspo", clip=0.05, kl_estimator="k3", kl_coef=0.5),
]


def plain(rule: Objective, new, old, advantages, weights, actions, reference) -> torch.Tensor:
    """The formulas, one token after the other."""
    total, loss = sum(map(float, weights)), torch.zeros((), dtype=new.dtype)
    low, high = 1 - rule.clip, 1 + (rule.clip_high or rule.clip)
    for t in range(len(new)):
        ratio, value = torch.exp(new[t] - old[t]), advantages[t]
        if rule.loss == "gspo":
            mine = [i for i in range(len(new)) if actions[i] == actions[t]]
            common = math.exp(sum(float(new[i].detach() - old[i]) for i in mine) / len(mine))
            ratio = common * torch.exp(new[t] - new[t].detach())
        if rule.loss == "cispo":
            gain = min(max(float(ratio.detach()), low), high) * value * new[t]
        else:
            gain = torch.minimum(ratio * value, ratio.clamp(low, high) * value)
            if rule.dual_clip and value < 0:
                gain = torch.maximum(gain, rule.dual_clip * value)
        x = new[t] - reference[t]
        penalty = x * x / 2 if rule.kl_estimator == "k2" else torch.exp(-x) - 1 + x
        loss = loss - weights[t] * (gain - rule.kl_coef * penalty) / total
    return loss


@pytest.mark.parametrize("rule", OBJECTIVES, ids=range(len(OBJECTIVES)))
def test_value_and_gradient_of_every_loss(rule: Objective) -> None:
    generator = torch.Generator().manual_seed(3)
    draw = lambda: torch.randn(40, generator=generator, dtype=torch.float64)  # noqa: E731
    old = -2 + 0.3 * draw()
    new, reference, advantages = old + 0.3 * draw(), old + 0.5 * draw(), draw()
    weights = torch.ones(40, dtype=torch.float64)
    actions = torch.arange(40) // 7
    a, b = (new.clone().requires_grad_() for _ in range(2))
    found = rule(a, old, advantages, weights, total=40.0, actions=actions, reference=reference)
    right = plain(rule, b, old, advantages, weights, actions, reference)
    assert found.value.item() == pytest.approx(right.item())
    found.value.backward()
    right.backward()
    torch.testing.assert_close(a.grad, b.grad)
    assert 0 < float(found.sums["clip_fraction"]) < 40


@pytest.mark.parametrize("rule", OBJECTIVES[2:], ids=range(2, len(OBJECTIVES)))
def test_the_learner_gives_every_loss_the_right_tokens_however_a_batch_is_cut(rule: Objective) -> None:
    samples, advantages, weights = make_batch(6)
    model = make_model()
    own, far = (Reference(make_model(seed)).logprobs(samples) for seed in (0, 1))
    for sample, now in zip(samples, own, strict=True):  # an old policy nearby, so that clips bind
        noise = np.random.default_rng(len(sample)).normal(0, 0.3, len(sample))
        sample.logprobs[:] = np.minimum((now + noise) * sample.action_mask, 0)
    hand = copy.deepcopy(model)
    new, rest, actions = [], [], []
    for sample, values, mass, reference in zip(samples, advantages, weights, far, strict=True):
        ids = torch.tensor(sample.ids)
        scores = hand(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)[range(len(ids) - 1), ids[1:]]
        kept = np.flatnonzero(mass)
        new.append(scores[kept - 1])
        rest.append(np.stack([sample.logprobs[kept], values[kept], mass[kept], reference[kept]]))
        actions += [
            (len(new), next(k for k, s in enumerate(sample.spans) if s.start <= t < s.end)) for t in kept
        ]
    old, values, mass, reference = torch.tensor(np.concatenate(rest, 1))
    loss = plain(rule, torch.cat(new), old, values, mass, actions, reference)
    loss.backward()
    for budget in (10_000, 1):
        learner = Learner(copy.deepcopy(model), Schedule(1e-2), zero_stage=0, tokens_per_micro_batch=budget)
        stats, found = gradient_of(learner, samples, advantages, weights, objective=rule, reference=far)
        assert stats["loss"] == pytest.approx(loss.item(), abs=1e-5)
        for a, b in zip(found, hand.parameters(), strict=True):
            torch.testing.assert_close(a, b.grad, atol=2e-5, rtol=1e-4)
        assert ("kl_loss" in stats) == (rule.kl_coef > 0)


def test_dual_clip_bounds_what_an_unlikely_action_can_do() -> None:
    new = torch.tensor([math.log(5.0), math.log(2.0)], requires_grad=True)
    found = clip_loss(new, torch.zeros(2), -torch.ones(2), torch.ones(2), total=2.0, clip=0.2, dual_clip=3.0)
    found.value.backward()
    assert found.value.item() == pytest.approx((3 + 2) / 2)
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([0, 1])


def test_which_kl_estimates_hold_a_policy_back_and_which_do_not() -> None:
    """Exact expected gradients of a softmax: k2 and k3 in the loss pull, k1 there does not."""
    logits = torch.tensor([0.5, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.2, 0.3, -0.4], dtype=torch.float64).log_softmax(0)

    def expected(estimate: Any) -> torch.Tensor:
        logp = logits.log_softmax(0)
        (gradient,) = torch.autograd.grad((logp.exp().detach() * estimate(logp - reference)).sum(), logits)
        return gradient

    logp = logits.log_softmax(0)
    (right,) = torch.autograd.grad((logp.exp() * (logp - reference)).sum(), logits)  # KL(policy | reference)
    logp = logits.log_softmax(0)
    (forward,) = torch.autograd.grad(-(reference.exp() * logp).sum(), logits)  # KL(reference | policy)
    torch.testing.assert_close(expected(lambda x: x * x / 2), right)
    torch.testing.assert_close(expected(lambda x: torch.exp(-x) - 1 + x), forward)
    torch.testing.assert_close(expected(lambda x: x), torch.zeros_like(right), atol=1e-12, rtol=0)


def test_the_section_becomes_the_objective() -> None:
    assert objective_of(Algo()) == Objective()
    algo = Algo(kl_in="loss", kl_estimator="k3", kl_coef=0.1, loss="gspo", clip=3e-4, clip_high=4e-4)
    assert objective_of(algo) == Objective("gspo", 3e-4, 4e-4, kl_estimator="k3", kl_coef=0.1)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["algo.kl_in=loss"], r"its gradient is 0 on average.*Use algo\.kl_estimator=k2"),
        (["algo.kl_estimator=k3"], r"its gradient is biased.*Use algo\.kl_estimator=k1"),
        (["algo.dual_clip=0.5"], "must be above 1"),
        (["algo.dual_clip=3", "algo.loss=gspo"], r"goes with algo\.loss=ppo alone"),
        (["algo.correction_bounds=[1.5, 2]"], "both sides of 1"),
        (["algo.drop_flat_groups=true"], r"Set rollout\.samples_per_task=8"),
        (["algo.overlong_penalty=1", "algo.overlong_buffer=64"], r"below rollout\.max_new_tokens=64"),
        (["algo.loss=grpo"], "'ppo', 'gspo' or 'cispo'"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("demo", overrides)
