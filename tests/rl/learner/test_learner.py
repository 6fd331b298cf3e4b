"""The learner's gradients: right, and independent of how a batch is cut, packed or dealt."""

from __future__ import annotations

import copy
import json
import math
import sys
from itertools import chain

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from learner_helpers import (
    constant,
    make_batch,
    make_learner,
    make_model,
    make_reference,
    make_sample,
    padded_gradient,
    parameters,
    take_step,
)
from mappa_rl.config import Algo, Optim, WarmStart
from mappa_rl.distributed import deepspeed_engine
from mappa_rl.errors import ConfigError, LearnerError
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.warmstart.imitation import imitate, token_weights
from paths import HELPERS
from several_processes import run_processes

LR = 1e-2


def catch_gradient(learner: Learner) -> list[torch.Tensor]:
    """Where the accumulated gradient of the next update will be; it is not applied."""
    caught: list[torch.Tensor] = []
    engine = learner._engine

    def apply() -> float:
        caught.extend(parameter.grad.clone() for parameter in learner.model.parameters())
        engine.zero_grad()
        return 0.0

    learner._apply = apply  # type: ignore[method-assign]
    return caught


@pytest.mark.parametrize("budget", [10_000, 60, 1])
def test_gradient_equals_a_plain_padded_loop(budget):
    samples, advantages, weights = make_batch()
    model = make_model()
    for sample, own in zip(samples, make_reference(copy.deepcopy(model)).logprobs(samples), strict=True):
        noise = np.random.default_rng(len(sample)).normal(0, 0.3, len(sample))  # old policy nearby: some clip
        sample.logprobs[:] = np.minimum((own + noise) * sample.action_mask, 0)
    loss, right = padded_gradient(copy.deepcopy(model), samples, advantages, weights)
    learner = make_learner(model, LR, zero_stage=0, tokens_per_micro_batch=budget)
    found = catch_gradient(learner)
    stats = take_step(learner, samples, advantages, weights)
    assert stats["loss"] == pytest.approx(loss, abs=1e-5)
    assert 0 < stats["clip_fraction"] < 1
    assert stats["mismatch"] > 0.05
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_update_is_the_same_for_every_split_and_stage(stage):
    """Against plain AdamW with clipping, on gradients that clipping changes."""
    samples, advantages, weights = make_batch()
    for sample, own in zip(samples, make_reference(make_model()).logprobs(samples), strict=True):
        sample.logprobs[:] = own
    advantages = [50 * advantage for advantage in advantages]
    plain = make_model()
    _, right = padded_gradient(plain, samples, advantages, weights)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
    norm = float(torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5))
    assert norm > 0.5
    optimizer.step()
    for budget in (10_000, 50):
        learner = make_learner(
            make_model(),
            LR,
            zero_stage=stage,
            tokens_per_micro_batch=budget,
            weight_decay=0.1,
            grad_clip=0.5,
        )
        stats = take_step(learner, samples, advantages, weights)
        assert stats["grad_norm"] == pytest.approx(norm, rel=1e-4)
        assert stats["lr"] == LR
        # Adam's first step is nearly the gradient's sign; entries near 0 may differ by rounding alone
        for a, b, g in zip(learner.model.parameters(), plain.parameters(), right, strict=True):
            torch.testing.assert_close(a[g.abs() > 1e-3], b[g.abs() > 1e-3], atol=1e-5, rtol=0)


def test_masked_tokens_have_no_effect():
    samples, advantages, weights = make_batch()
    outcomes = []
    for noise in (0.0, 100.0):
        values = [
            np.where(w == 0, noise, a).astype(np.float32) for a, w in zip(advantages, weights, strict=True)
        ]
        learner = make_learner(make_model(), LR, zero_stage=0)
        take_step(learner, samples, values, weights)
        outcomes.append(parameters(learner.model))
    assert torch.equal(*outcomes)


def test_no_valid_token_changes_nothing_and_says_so():
    samples, advantages, weights = make_batch(4)
    learner = make_learner(make_model(), LR, epochs=2, minibatches=2)
    before, state = parameters(learner.model), learner._random.bit_generator.state
    none = [0 * w for w in weights]
    assert take_step(learner, samples, advantages, none) == {"skipped": 1.0}
    assert learner.supervised(samples, none) == {"skipped": 1.0}
    assert take_step(learner, [], [], []) == {"skipped": 1.0}
    assert torch.equal(parameters(learner.model), before)
    assert learner.updates == 0
    assert learner._random.bit_generator.state == state


def test_zero_advantages_give_a_zero_gradient():
    samples, advantages, weights = make_batch(4)
    learner = make_learner(make_model(), LR)
    before = parameters(learner.model)
    assert take_step(learner, samples, [0 * a for a in advantages], weights)["grad_norm"] == 0
    assert torch.equal(parameters(learner.model), before)


def test_minibatches_and_epochs_cover_all_samples():
    samples, advantages, weights = make_batch(10)
    learner = make_learner(make_model(), 1e-4, epochs=2, minibatches=3)
    seen: list[list[int]] = []
    update = learner._update
    learner._update = lambda terms, chosen: (seen.append(sorted(chosen[0])), update(terms, chosen))[1]
    stats = take_step(learner, samples, advantages, weights)
    assert stats["updates"] == learner.updates == 6
    assert sorted(chain(*seen[:3])) == sorted(chain(*seen[3:])) == list(range(10))
    assert seen[:3] != seen[3:]


def test_an_interrupted_step_draws_the_same_minibatches_again(monkeypatch):
    batch = Batch(*make_batch(10))
    learner, whole = (make_learner(make_model(), 1e-4, epochs=2, minibatches=3) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(learner, "_accumulate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learner.step(batch, Objective(Algo()))
    assert learner.updates == 0
    for _ in range(2):
        assert learner.step(batch, Objective(Algo())) == whole.step(batch, Objective(Algo()))


def interrupt(*_):
    raise KeyboardInterrupt


def test_several_processes_do_not_draw_their_own_minibatches(monkeypatch):
    learner = make_learner(make_model(), LR)
    monkeypatch.setattr("mappa_rl.learner.learner.world", lambda: (1, 2))
    with pytest.raises(LearnerError, match="SharedLearner"):
        learner.step(Batch(*make_batch(4)), Objective(Algo()))


def test_more_minibatches_than_samples():
    samples, advantages, weights = make_batch(2)
    learner = make_learner(make_model(), 1e-4, minibatches=5)
    assert take_step(learner, samples, advantages, weights)["updates"] == 2


def test_actions_with_high_advantage_become_likelier():
    samples = [make_sample([(3, 4)], [1.0], seed=k) for k in range(6)]
    learner = make_learner(make_model(), 1e-3, epochs=3)
    advantages = [(s.action_mask * (1 if k < 3 else -1)).astype(np.float32) for k, s in enumerate(samples)]
    before = learner.logprobs(samples)
    for sample, own in zip(samples, before, strict=True):
        sample.logprobs[:] = own
    stats = take_step(learner, samples, advantages, [s.action_mask.astype(np.float32) for s in samples])
    change = [float((a - b).sum()) for a, b in zip(learner.logprobs(samples), before, strict=True)]
    assert min(change[:3]) > 0 > max(change[3:])
    assert stats["mismatch"] == pytest.approx(0, abs=1e-5)
    assert stats["kl"] > 0


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_skipped_and_counted(stage, bad):
    samples, advantages, weights = make_batch(4)
    for sample, own in zip(samples, make_reference(make_model()).logprobs(samples), strict=True):
        sample.logprobs[:] = own
    broken = [advantage.copy() for advantage in advantages]
    broken[0][samples[0].action_mask] = bad
    learner, clean = (make_learner(make_model(), LR, zero_stage=stage) for _ in range(2))
    before = learner.logprobs(samples)
    stats = take_step(learner, samples, broken, weights)
    assert (stats["skipped_updates"], stats["updates"]) == (1, 1)
    assert "loss" not in stats
    for found, right in zip(learner.logprobs(samples), before, strict=True):
        np.testing.assert_array_equal(found, right)
    after = take_step(learner, samples, advantages, weights)  # neither weights nor moments kept a trace
    assert after == pytest.approx(dict(take_step(clean, samples, advantages, weights)), rel=1e-6)
    assert after["skipped_updates"] == 0
    for found, right in zip(learner.logprobs(samples), clean.logprobs(samples), strict=True):
        np.testing.assert_array_equal(found, right)


def test_too_many_skipped_updates_in_a_row_end_the_run():
    samples, advantages, weights = make_batch(4)
    broken = [np.full_like(advantage, np.nan) for advantage in advantages]
    learner = make_learner(make_model(), LR, max_skipped_updates=2)
    for given in (broken, broken, advantages, broken, broken):  # one that is applied begins again
        take_step(learner, samples, given, weights)
    before = parameters(learner.model)
    with pytest.raises(LearnerError, match=r"3 updates in a row, up to update 6; none of them.*optim\.lr"):
        take_step(learner, samples, broken, weights)
    assert torch.equal(parameters(learner.model), before)


def test_bfloat16_trains_from_stage_one_only():
    samples, advantages, weights = make_batch(4)
    with pytest.raises(LearnerError, match="zero_stage >= 1"):
        make_learner(make_model().bfloat16(), LR, zero_stage=0)
    learner = make_learner(make_model().bfloat16(), LR, zero_stage=2)
    before = parameters(learner.model)
    assert math.isfinite(take_step(learner, samples, advantages, weights)["grad_norm"])
    assert not torch.equal(parameters(learner.model), before)


def test_what_the_backend_cannot_do_is_refused():
    settings = {
        "betas": (0.9, 0.95),
        "weight_decay": 0.0,
        "grad_clip": 1.0,
        "zero_stage": 0,
        "offload": False,
    }
    with pytest.raises(LearnerError, match="use 0, 1, 2 or 3"):
        deepspeed_engine(make_model(), **{**settings, "zero_stage": 4})
    with pytest.raises(LearnerError, match="offload=True needs zero_stage >= 1"):
        deepspeed_engine(make_model(), **{**settings, "offload": True})


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"zero_stage": 3}, {"zero_stage": 2, "offload": True}])
def test_scattered_weights_train_score_and_save_like_whole_ones(options, tmp_path):
    samples, advantages, weights = make_batch()
    (plain, whole, state), learners = (tmp_path / name for name in ("plain", "whole", "state")), []
    for kind in ({"zero_stage": 1}, options):
        learner = make_learner(make_model(), LR, tokens_per_micro_batch=60, **kind)
        before = learner.logprobs(samples)
        stats = [take_step(learner, samples, advantages, weights) for _ in range(2)]
        learners.append((learner, before, stats, learner.logprobs(samples)))
    for right, found in zip(learners[0][1] + learners[0][3], learners[1][1] + learners[1][3], strict=True):
        np.testing.assert_allclose(found, right, atol=1e-4)
    for right, found in zip(learners[0][2], learners[1][2], strict=True):
        assert found == pytest.approx(dict(right), rel=1e-4, abs=1e-6)
    learners[0][0].export(plain)
    learners[1][0].export(whole)
    a, b = (AutoModelForCausalLM.from_pretrained(folder, dtype="float32") for folder in (plain, whole))
    torch.testing.assert_close(parameters(a), parameters(b), atol=1e-4, rtol=1e-4)
    learners[1][0].save(state)
    restored = make_learner(make_model(1), LR, tokens_per_micro_batch=60, **options)
    restored.load(state)
    for right, found in zip(learners[1][3], restored.logprobs(samples), strict=True):
        np.testing.assert_array_equal(found, right)
    assert take_step(restored, samples, advantages, weights) == take_step(
        learners[1][0], samples, advantages, weights
    )


def test_schedules():
    assert [constant(2.0, warmup=2)(k) for k in range(4)] == [1, 2, 2, 2]
    linear = Schedule(1.0, "linear", warmup=1, total=5, floor=0.0)
    assert [linear(k) for k in range(7)] == pytest.approx([1, 1, 0.75, 0.5, 0.25, 0, 0])
    cosine = Schedule(1.0, "cosine", warmup=0, total=4, floor=0.0)
    assert [cosine(k) for k in range(5)] == pytest.approx([1, 0.8536, 0.5, 0.1464, 0], abs=1e-4)
    with pytest.raises(ConfigError, match="above warmup=5"):
        Schedule(1.0, "linear", warmup=5, total=5, floor=0.0)
    with pytest.raises(ConfigError, match="cosine"):
        Schedule(1.0, "step", warmup=0, total=4, floor=0.0)  # type: ignore[arg-type]
    section = Optim(schedule="cosine", warmup_ratio=0.2, min_lr_ratio=0.1)
    assert Schedule.of(section, 2e-3, 20) == Schedule(2e-3, "cosine", warmup=4, total=20, floor=0.1)


def test_imitation_learns_and_goes_on_where_it_stood():
    samples = [make_sample([(3, 5)], [0.0], seed=k) for k in range(8)]
    assert token_weights(samples[0], 0.1).tolist() == pytest.approx([0, 0.1, 0.1, 1, 1, 1, 1, 1])

    def start() -> Learner:
        return make_learner(
            make_model(), Schedule(3e-3, "linear", warmup=5, total=60, floor=0.0), zero_stage=0
        )

    losses: list[float] = []
    whole = start()
    weights = [token_weights(sample, 0.1) for sample in samples]
    section = WarmStart(steps=60, batch_size=3)
    imitate(whole, samples, weights, section, seed=0, on_step=lambda _, stats: losses.append(stats["loss"]))
    assert len(losses) == 60
    assert losses[-1] < 0.5 * losses[0]
    halves = start()
    imitate(halves, samples, weights, section.model_copy(update={"steps": 25}), seed=0)
    imitate(halves, samples, weights, section, seed=0)
    assert torch.equal(parameters(whole.model), parameters(halves.model))


CASES = ((5, 2), (12, 2), (5, 0))
"""Samples of the first of two processes, of 12, and ZeRO's stage. With none, one runs zero-weight batches."""
WORKER = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, torch
from learner_helpers import make_batch, make_learner, make_model, parameters, take_step
rank, found = int(os.environ["RANK"]), []
torch.set_num_threads(1)
for share, stage in json.loads(sys.argv[3]):
    learner = make_learner(make_model(), 1e-3, zero_stage=stage, tokens_per_micro_batch=60)
    samples, advantages, weights = make_batch()
    mine = slice(0, share) if rank == 0 else slice(share, None)
    stats = [take_step(learner, samples[mine], advantages[mine], weights[mine]) for _ in range(2)]
    found.append((parameters(learner.model), [dict(s) for s in stats]))
if rank == 0:
    torch.save(found, sys.argv[2])
"""


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """What two processes learn in each of ``CASES``."""
    out = tmp_path_factory.mktemp("two") / "out.pt"
    run_processes([sys.executable, "-c", WORKER, str(HELPERS), str(out), json.dumps(CASES)], 2, timeout_s=300)
    return dict(zip(CASES, torch.load(out), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("share", "stage"), CASES)
def test_two_processes_equal_one(of_two, share, stage):
    found, stats = of_two[share, stage]
    learner = make_learner(make_model(), 1e-3, zero_stage=stage, tokens_per_micro_batch=60)
    right = [take_step(learner, *make_batch()) for _ in range(2)]
    torch.testing.assert_close(found, parameters(learner.model), atol=1e-5, rtol=1e-5)
    for a, b in zip(stats, right, strict=True):
        assert a == pytest.approx(dict(b), rel=1e-3, abs=1e-5)
