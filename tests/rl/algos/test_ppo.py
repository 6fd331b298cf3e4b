"""PPO with a critic: advantages by hand, the gradient, and a value head that is saved, dealt and left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from learner_helpers import (
    VOCAB,
    gradient_of,
    make_batch,
    make_learner,
    make_model,
    make_reference,
    make_sample,
    take_step,
)
from mappa_rl.algos import make_algorithm
from mappa_rl.config import Algo, Lora, load_config
from mappa_rl.errors import CheckpointError, ConfigError, LearnerError
from mappa_rl.learner.critic import ValueLoss, ValueTargets
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.losses import Objective
from mappa_rl.models.lora import adapted
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from mappa_rl.types import Floats, Sample
from tiny_run import TINY

LOSS = ValueLoss(coef=0.7, clip=0.3)


def two_turns(valid: Sequence[bool] = (True, True)) -> tuple[Sample, Floats, Floats]:
    """Positions 0-6, a first context of one token; action 1 = {1, 2}, reward 1; action 2 = {5, 6}, reward 3;
    values 0.5, 1, 2, 2.5 on action tokens and 9 on the others, where they must be ignored. KL 1 on every
    action token, 7 on the environment's."""
    sample = make_sample([(1, 2), (2, 2)], [1.0, 3.0], valid=valid)
    kl = np.array([7, 1, 1, 7, 7, 1, 1], np.float32)
    values = np.array([9, 0.5, 1, 9, 9, 2, 2.5], np.float32)
    return sample, (sample.logprobs - kl).astype(np.float32), values


@pytest.mark.parametrize(
    ("settings", "returns"),
    [
        ({"mode": "per_action", "kl_coef": 0.0}, [1, 1, 3, 3]),
        ({"mode": "per_action", "kl_coef": 0.1}, [0.8, 0.9, 2.8, 2.9]),
        # with lambda 1 the critic is a baseline alone: the returns are those without one
        ({"mode": "return_to_go", "gamma": 0.5, "kl_coef": 0.0}, [2.5, 2.5, 3, 3]),
        # with lambda 0 the second action counts by its value, 2: 1 + 0.5 * 2
        ({"mode": "return_to_go", "gamma": 0.5, "kl_coef": 0.0, "gae_lambda": 0.0}, [2, 2, 3, 3]),
        # delta = 1 + 0.5 * 2 - 1 = 1 at position 2; A = 1 + 0.5 * 0.5 * (3 - 2) = 1.25; R = A + V = 2.25
        ({"mode": "return_to_go", "gamma": 0.5, "kl_coef": 0.0, "gae_lambda": 0.5}, [2.25, 2.25, 3, 3]),
        # R at 5 is 2.8, so position 2 has 0.9 + 0.5 * (0.5 * 2.8 + 0.5 * 2) = 2.1
        ({"mode": "return_to_go", "gamma": 0.5, "kl_coef": 0.1, "gae_lambda": 0.5}, [2.0, 2.1, 2.8, 2.9]),
    ],
)
def test_advantages_by_hand(settings: dict[str, Any], returns: list[float]) -> None:
    sample, reference, values = two_turns()
    found = make_algorithm("ppo", reward_scale=1.0, **settings).token_advantages(
        [sample], [reference], [values]
    )
    assert found.returns is not None
    mask = sample.action_mask
    assert found.returns[0][mask] == pytest.approx(returns)
    assert not found.returns[0][~mask].any()
    raw = np.array(returns) - values[mask]
    assert found.advantages[0][mask] == pytest.approx((raw - raw.mean()) / raw.std(), abs=1e-5)
    explained = 1 - raw.var() / np.var(returns)
    assert found.stats["explained_variance"] == pytest.approx(explained)


def advantages_token_by_token(
    rewards: Sequence[float], values: Sequence[float], last: Sequence[bool], gamma: float, lam: float
) -> list[float]:
    """The definition in the docstring, from the end: delta and A of every action token of a segment."""
    out, later, value = [], 0.0, 0.0
    for r, v, ends in zip(reversed(rewards), reversed(values), reversed(last), strict=True):
        g, trust = (gamma, lam) if ends else (1.0, 1.0)
        later = r + g * value - v + g * trust * later
        value = v
        out.append(later)
    return out[::-1]


def test_returns_are_those_of_the_definition_also_over_parts_of_a_segment() -> None:
    rng = np.random.default_rng(0)
    parts = [make_sample([(3, 4), (2, 1)], [1.0, 2.0]), make_sample([(9, 3), (1, 2)], [0.5, 4.0], part=1)]
    values = [rng.normal(size=len(s)).astype(np.float32) for s in parts]
    found = make_algorithm(
        "ppo", reward_scale=1.0, mode="return_to_go", gamma=0.9, gae_lambda=0.8, kl_coef=0.0
    ).token_advantages(parts, None, values)
    rewards, last = [], []
    for sample in parts:
        for span in sample.spans:
            size = span.end - span.start
            rewards += [0.0] * (size - 1) + [span.reward]
            last += [False] * (size - 1) + [True]
    own = np.concatenate([v[s.action_mask] for v, s in zip(values, parts, strict=True)])
    right = advantages_token_by_token(rewards, own.tolist(), last, 0.9, 0.8)
    assert found.returns is not None
    got = np.concatenate([r[s.action_mask] for r, s in zip(found.returns, parts, strict=True)])
    np.testing.assert_allclose(got - own, right, atol=1e-5)


def test_an_action_without_a_reward_is_left_out() -> None:
    sample, reference, values = two_turns(valid=(True, False))
    settings = {"mode": "return_to_go", "gae_lambda": 0.5, "kl_coef": 0.0}
    found = make_algorithm("ppo", reward_scale=1.0, **settings).token_advantages(
        [sample], [reference], [values]
    )
    assert found.returns is not None
    assert found.returns[0].tolist() == [0, 1, 1, 0, 0, 0, 0]
    assert found.weights[0].tolist() == [0, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gae_lambda": 0.9}, "mode=per_action has none"),
        ({"gae_lambda": 1.1, "mode": "return_to_go"}, r"gae_lambda must be within \[0, 1\]"),
        ({"vf_coef": 0.0}, "vf_coef above 0"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_algorithm("ppo", **settings)


def batch_with_critic() -> tuple[list[Sample], list[Floats], list[Floats], ValueTargets]:
    samples, advantages, weights = make_batch()
    for sample, own in zip(samples, make_reference(make_model()).logprobs(samples), strict=True):
        sample.logprobs[:] = own
    rng = np.random.default_rng(5)
    values, returns = (
        [(rng.normal(size=len(s)) * s.action_mask).astype(np.float32) for s in samples] for _ in range(2)
    )
    return samples, advantages, weights, ValueTargets(values, returns, LOSS)


def learner_with_critic(model: Any = None, **options: Any) -> Learner:
    """Its value head is not 0, so that the trunk has a gradient from it."""
    learner = make_learner(model or make_model(), 1e-2, critic=True, **{"zero_stage": 0, **options})
    with torch.no_grad():
        head = learner._engine.module.critic
        head.weight.copy_(torch.linspace(-1, 1, head.weight.numel()))
        head.bias.fill_(0.2)
    return learner


def padded_gradient(samples: Any, advantages: Any, weights: Any, critic: ValueTargets) -> list[torch.Tensor]:
    """One sequence after the other, the ordinary forward pass and plain autograd: policy, then the head."""
    model = make_model().eval()
    head = torch.linspace(-1, 1, 32, requires_grad=True)
    bias = torch.tensor([0.2], requires_grad=True)
    total = float(sum(w.sum() for w in weights))
    loss = torch.zeros(())
    for k, sample in enumerate(samples):
        ids = torch.from_numpy(sample.ids)
        out = model(input_ids=ids[None], use_cache=False, output_hidden_states=True)
        logprobs = out.logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        values = out.hidden_states[-1][0, :-1] @ head + bias
        old, adv, w, before, target = (
            torch.from_numpy(a)[1:]
            for a in (sample.logprobs, advantages[k], weights[k], critic.values[k], critic.returns[k])
        )
        ratio = (logprobs - old).exp()
        gain = torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
        near = before + (values - before).clamp(-LOSS.clip, LOSS.clip)
        error = torch.maximum((values - target) ** 2, (near - target) ** 2)
        loss = loss + ((LOSS.coef * error / 2 - gain) * w).sum() / total
    loss.backward()
    return [*(p.grad.clone() for p in model.parameters() if p.grad is not None), head.grad, bias.grad]  # type: ignore[list-item]


@pytest.mark.parametrize(
    "options",
    [
        {"tokens_per_micro_batch": 10_000},
        {"tokens_per_micro_batch": 60},
        {"tokens_per_micro_batch": 1},
        {"tokens_per_micro_batch": 60, "gradient_checkpointing": True},
    ],
)
@pytest.mark.parametrize("chunk", [None, 7 * VOCAB])
def test_the_gradient_is_that_of_a_plain_loop_however_a_batch_is_cut(
    options: dict[str, Any], chunk: int | None
) -> None:
    samples, advantages, weights, critic = batch_with_critic()
    learner = learner_with_critic(**options)
    learner._engine.module._chunk = chunk
    head = learner._engine.module.critic
    caught: list[torch.Tensor] = []

    def apply() -> float:
        caught.extend(p.grad.clone() for p in [*learner.model.parameters(), head.weight, head.bias])
        learner._engine.zero_grad()
        return 0.0

    learner._apply = apply  # type: ignore[method-assign]
    stats = take_step(learner, samples, advantages, weights, value_targets=critic)
    right = padded_gradient(samples, advantages, weights, critic)
    for a, b in zip(caught, right, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)
    assert stats["value_loss"] > 0.1
    assert 0 < stats["value_clip_fraction"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_every_stage_learns_the_same_and_goes_on_from_a_checkpoint(stage: int, tmp_path: Path) -> None:
    samples, advantages, weights, critic = batch_with_critic()

    def steps(learner: Learner, count: int) -> list[dict[str, float]]:
        return [take_step(learner, samples, advantages, weights, value_targets=critic) for _ in range(count)]

    plain = make_learner(make_model(), 1e-2, zero_stage=0, critic=True)
    learner = make_learner(make_model(), 1e-2, zero_stage=stage, critic=True, tokens_per_micro_batch=60)
    right = steps(plain, 3)
    found = steps(learner, 2)
    for a, b in zip(found, right[:2], strict=True):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-5)
    learner.save(tmp_path)
    learner.export(tmp_path / "model")
    assert not [k for k in load_file(tmp_path / "model" / "model.safetensors") if "critic" in k]
    other = make_learner(make_model(3), 1e-2, zero_stage=stage, critic=True, tokens_per_micro_batch=60)
    other.load(tmp_path)
    for a, b in zip(learner.values(samples), other.values(samples), strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.abs(values).max() > 0 for values in learner.values(samples))
    assert steps(other, 1) == steps(learner, 1)
    bare = make_learner(make_model(), 1e-2, zero_stage=stage)
    with pytest.raises(CheckpointError, match="with a critic"):
        bare.load(tmp_path)
    bare.save(tmp_path / "bare")
    with pytest.raises(CheckpointError, match="without a critic"):
        learner.load(tmp_path / "bare")


@pytest.mark.slow
def test_an_adapter_has_a_critic_too(tmp_path: Path) -> None:
    samples, advantages, weights, critic = batch_with_critic()
    shape = Lora(rank=4, alpha=8, targets=["q_proj", "v_proj"])
    base = make_model()
    learner = learner_with_critic(adapted(base, shape, 0))
    before = learner.values(samples)
    take_step(learner, samples, advantages, weights, value_targets=critic)
    learner.save(tmp_path)
    other = learner_with_critic(adapted(base, shape, 1))
    other.load(tmp_path)
    changed = [float(np.abs(a - b).max()) for a, b in zip(before, other.values(samples), strict=True)]
    assert max(changed) > 0
    for a, b in zip(learner.values(samples), other.values(samples), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fresh_head_leaves_the_policy_its_own_gradient() -> None:
    samples, advantages, weights, critic = batch_with_critic()
    plain = make_learner(make_model(), 1e-2, zero_stage=0)
    with_head = make_learner(make_model(), 1e-2, zero_stage=0, critic=True)
    assert not any(values.any() for values in with_head.values(samples))
    _, right = gradient_of(plain, samples, advantages, weights)
    _, found = gradient_of(with_head, samples, advantages, weights, value_targets=critic)
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.slow
def test_the_critic_learns_the_returns_of_its_states() -> None:
    samples = [make_sample([(3, 4)], [1.0], seed=k) for k in range(8)]
    weights = [s.action_mask.astype(np.float32) for s in samples]
    none = [np.zeros(len(s), np.float32) for s in samples]
    returns = [(s.action_mask * (k % 2)).astype(np.float32) for k, s in enumerate(samples)]
    learner = make_learner(make_model(), 1e-2, zero_stage=0, critic=True)
    losses = []
    for _ in range(40):
        critic = ValueTargets(learner.values(samples), returns, ValueLoss(0.5, 0.0))
        losses.append(take_step(learner, samples, none, weights, value_targets=critic)["value_loss"])
    assert losses[0] == pytest.approx(0.25)
    assert losses[-1] < 0.1 * losses[0]


def test_critic_and_criticism_belong_together() -> None:
    samples, advantages, weights, critic = batch_with_critic()
    plain = make_learner(make_model(), 1e-2)
    with pytest.raises(LearnerError, match="no critic"):
        take_step(plain, samples, advantages, weights, value_targets=critic)
    with pytest.raises(LearnerError, match="no critic"):
        plain.values(samples)
    with pytest.raises(LearnerError, match="a critic, but the batch has no value targets"):
        take_step(learner_with_critic(), samples, advantages, weights, objective=Objective(Algo()))


SMALL = [
    *TINY,
    "algo.name=ppo",
    "algo.mode=return_to_go",
    "algo.options.gae_lambda=0.9",
]


@pytest.mark.slow
def test_a_run_goes_on_where_it_stood(tmp_path: Path) -> None:
    config = load_config("demo", SMALL)
    whole = train(config.with_overrides(["run.steps=3"]), tmp_path / "whole")
    start = f"warmstart.path={whole / 'warmstart'}"
    cut = train(config.with_overrides([start, "run.steps=2"]), tmp_path / "cut")
    train(config.with_overrides([start, "run.steps=3"]), cut, resume=True)
    right, found = (read_metrics(out) for out in (whole, cut))
    names = [name for name in right[2] if name.split("/")[0] in ("loss", "value_loss", "grad_norm", "kl")]
    assert {f"value_loss/{agent}" for agent in ("solver_0", "coder_0", "verifier_0")} <= set(names)
    assert [found[2][name] for name in names] == [right[2][name] for name in names]


def test_a_wrong_order_of_parts_is_found() -> None:
    sample, _, values = two_turns()
    with pytest.raises(Exception, match="merge_turns"):
        make_algorithm("ppo", kl_coef=0.0).token_advantages(
            [dataclasses.replace(sample, part=1)], None, [values]
        )
