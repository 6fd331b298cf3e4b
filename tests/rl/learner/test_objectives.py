"""Every loss against a plain loop over tokens, its gradient against autograd, and through the learner."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from learner_helpers import gradient_of, make_batch, make_learner, make_model, make_reference
from mappa_rl.config import Algo, load_config
from mappa_rl.errors import ConfigError
from mappa_rl.learner.losses import GSPO, LOSSES, PPO, Mass, Objective, Tokens
from mappa_rl.training.preflight.loss import check_loss

OBJECTIVES = [
    Objective(Algo()),
    Objective(Algo(clip_low=0.1, clip_high=0.4)),
    Objective(Algo(clip_low=0.1, dual_clip=1.2)),
    Objective(Algo(loss="gspo", clip_low=0.05, clip_high=0.1)),
    Objective(Algo(loss="cispo", clip_low=0.1, clip_high=0.3)),
    Objective(Algo(kl="loss_k2", kl_coef=0.5)),
    Objective(Algo(loss="gspo", clip_low=0.05, kl="loss_k3", kl_coef=0.5)),
]


def plain(rule: Objective, new, old, advantages, weights, actions, reference) -> torch.Tensor:
    """The formulas, one token after the other."""
    total, loss = sum(map(float, weights)), torch.zeros((), dtype=new.dtype)
    algo = rule.algo
    low, high = 1 - algo.clip_low, 1 + (algo.clip_high or algo.clip_low)
    for t in range(len(new)):
        ratio, value = torch.exp(new[t] - old[t]), advantages[t]
        if algo.loss == "gspo":
            mine = [i for i in range(len(new)) if actions[i] == actions[t]]
            common = math.exp(sum(float(new[i].detach() - old[i]) for i in mine) / len(mine))
            ratio = common * torch.exp(new[t] - new[t].detach())
        if algo.loss == "cispo":
            gain = min(max(float(ratio.detach()), low), high) * value * new[t]
        else:
            gain = torch.minimum(ratio * value, ratio.clamp(low, high) * value)
            if algo.dual_clip and value < 0:
                gain = torch.maximum(gain, algo.dual_clip * value)
        x = new[t] - reference[t]
        penalty = x * x / 2 if algo.kl == "loss_k2" else torch.exp(-x) - 1 + x
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
    found = rule(Tokens(a, old, advantages, actions), Mass(weights, weights, 40.0), reference, 0 * weights)
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
    own, far = (make_reference(make_model(seed)).logprobs(samples) for seed in (0, 1))
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
        learner = make_learner(copy.deepcopy(model), 1e-2, zero_stage=0, tokens_per_micro_batch=budget)
        stats, found = gradient_of(learner, samples, advantages, weights, objective=rule, reference=far)
        assert stats["loss"] == pytest.approx(loss.item(), abs=1e-5)
        for a, b in zip(found, hand.parameters(), strict=True):
            torch.testing.assert_close(a, b.grad, atol=2e-5, rtol=1e-4)
        assert ("kl_loss" in stats) == (rule.kl_coef > 0)


def test_dual_clip_bounds_what_an_unlikely_action_can_do() -> None:
    new = torch.tensor([math.log(5.0), math.log(2.0)], requires_grad=True)
    values, clipped = PPO(clip_low=0.2, clip_high=None, dual_clip=3.0)(
        Tokens(new, torch.zeros(2), -torch.ones(2), torch.arange(2))
    )
    values.sum().backward()
    assert values.tolist() == pytest.approx([3, 2])
    assert clipped.tolist() == [True, False]
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([0, 2])


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
    assert Objective(Algo()).token_loss == PPO(clip_low=0.2, clip_high=None, dual_clip=0.0)
    assert Objective(Algo(kl_coef=0.1)).kl_coef == 0
    made = Objective(Algo(kl="loss_k3", kl_coef=0.1, loss="gspo", clip_low=3e-4, clip_high=4e-4))
    assert made.token_loss == GSPO(clip_low=3e-4, clip_high=4e-4)
    assert made.kl_coef == 0.1


MINE = """
from dataclasses import dataclass
from mappa_rl.learner.losses import TokenLoss

@dataclass
class Plain:
    clip_low: float = 0.5
    scale: float = 1.0
    def __call__(self, tokens):
        return TokenLoss(-self.scale * tokens.advantages * tokens.logprobs, tokens.ratio < 1 - self.clip_low)
"""


def test_a_loss_of_ones_own_reaches_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    algo = Algo(loss=f"{file}:Plain", loss_options={"scale": 2.0}, clip_low=0.3)
    made = Objective(algo)
    data = pickle.dumps(made)
    for name in [name for name in sys.modules if name.startswith("mappa_plugin_mine")]:
        monkeypatch.delitem(sys.modules, name)  # another process has not imported the file
    tokens = Tokens(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -1.0]), torch.ones(2), torch.arange(2))
    for each in (made, pickle.loads(data)):  # noqa: S301
        weights = torch.tensor([1.0, 0.5])
        value, sums = each(tokens, Mass(weights, weights, 4.0), torch.zeros(2), torch.zeros(2))
        assert value.item() == pytest.approx((2 * 1 + 2 * 2 * 0.5) / 4)
        assert sums["clip_fraction"].item() == 0.5
    with pytest.raises(
        ConfigError, match=r"ignores algo\.dual_clip; remove it. Its settings are clip_low, scale"
    ):
        Objective(algo.model_copy(update={"dual_clip": 3.0}))
    with pytest.raises(ConfigError, match="Did you mean 'scale'"):
        Objective(algo.model_copy(update={"loss_options": {"scal": 1}}))


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        ("tokens.logprobs.sum()", r"one finite value .* gave values of shape \(\)"),
        ("tokens.logprobs * float('nan')", "must give one finite value"),
        ("tokens.advantages", "failed on 6 test tokens: RuntimeError"),
        ("tokens.logprob", "failed on 6 test tokens: AttributeError"),
    ],
)
def test_a_loss_is_tried_before_a_run(tmp_path: Path, gives: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE.replace("-self.scale * tokens.advantages * tokens.logprobs", gives))
    with pytest.raises(ConfigError, match=said):
        check_loss(load_config("demo", [f"algo.loss={file}:Plain"]))


def test_an_unknown_loss_and_settings_that_it_ignores_are_refused() -> None:
    assert list(LOSSES.builtin) == ["ppo", "gspo", "cispo"]
    with pytest.raises(ConfigError, match=r"algo\.loss='gpso' is not a loss; .* Did you mean 'gspo'\?"):
        check_loss(load_config("demo", ["algo.loss=gpso"]))
    with pytest.raises(ConfigError, match=r"algo\.loss='gspo' ignores algo\.dual_clip; remove it"):
        check_loss(load_config("demo", ["algo.loss=gspo", "algo.dual_clip=3"]))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["algo.kl=loss_k1"], r"algo\.kl='loss_k1' .*'reward', 'loss_k2' or 'loss_k3'"),
        (["algo.clip_high=0"], "algo.clip_high=0 .*greater than 0"),
        (["algo.dual_clip=0.5"], "must be above 1"),
        (["algo.importance_bounds=[1.5, 2]"], "both sides of 1"),
        (["algo.drop_zero_variance_groups=true"], r"Set rollout\.group_size=8"),
        (["algo.overlong_penalty=1", "algo.overlong_buffer=64"], r"below rollout\.max_new_tokens=64"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("demo", overrides)
