"""How token losses become a minibatch's loss, and the entropy bonus: the papers' formulas by autograd."""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from learner_helpers import gradient_of, make_batch, make_learner, make_model, make_reference, take_step
from mappa_rl.algos.aggregation import Shares, shares_of
from mappa_rl.config import Algo, Lora
from mappa_rl.learner.losses import Objective
from mappa_rl.models.lora import adapted
from mappa_rl.types import Demonstrations, Sample
from paths import HELPERS
from several_processes import run_processes

LENGTH = 7
"""The constant of ``constant``: not the length of any action."""
KINDS = ("token", "sequence", "constant")
ENTROPY = 0.3


def near_batch(count: int = 6) -> tuple[list[Sample], list[Any], list[Any]]:
    """Samples of one and two actions whose old policy is near the model, so that some clips bind."""
    samples, advantages, weights = make_batch(count)
    for sample, now in zip(samples, make_reference(make_model()).logprobs(samples), strict=True):
        noise = np.random.default_rng(len(sample)).normal(0, 0.3, len(sample))
        sample.logprobs[:] = np.minimum((now + noise) * sample.action_mask, 0)
    return samples, advantages, weights


def published(
    kind: str, model: Any, batch: tuple[list[Sample], list[Any], list[Any]], entropy: float = 0.0
) -> torch.Tensor:
    """One action after the other: PPO's clipped loss of its tokens less the bonus, and the papers' averages.

    DAPO (2503.14476, equation 8): the sum over the tokens of all actions, by their number. GRPO (2402.03300,
    equation 3): the mean over actions of each action's mean. Dr. GRPO (2503.20783, algorithm 1): the mean
    over actions of their tokens' sums, by a constant.
    """
    per_action = []
    for sample, advantages, weights in zip(*batch, strict=True):
        ids = torch.tensor(sample.ids)
        logits = model(input_ids=ids[None]).logits[0, :-1]
        for span in sample.spans:
            if not weights[span.start]:
                continue
            losses = []
            for t in range(span.start, span.end):
                row = logits[t - 1].log_softmax(-1)
                ratio, value = torch.exp(row[ids[t]] - float(sample.logprobs[t])), float(advantages[t])
                gain = torch.minimum(ratio * value, ratio.clamp(0.8, 1.2) * value)
                losses.append(-gain + entropy * (row.exp() * row).sum())
            per_action.append(torch.stack(losses))
    if kind == "token":
        return torch.cat(per_action).mean()
    if kind == "sequence":
        return torch.stack([losses.mean() for losses in per_action]).mean()
    return torch.stack([losses.sum() / LENGTH for losses in per_action]).mean()


def shares(kind: str, batch: tuple[list[Sample], list[Any], list[Any]]) -> Shares | None:
    return shares_of(kind, batch[0], batch[2], LENGTH)  # type: ignore[arg-type]


@pytest.mark.parametrize("entropy", [0.0, ENTROPY])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [10_000, 60, 1])
def test_the_loss_and_its_gradient_are_the_papers_however_a_batch_is_cut(
    kind: str, budget: int, entropy: float
) -> None:
    batch, model = near_batch(), make_model()
    hand = copy.deepcopy(model)
    right = published(kind, hand, batch, entropy)
    right.backward()
    learner = make_learner(model, 1e-2, zero_stage=0, tokens_per_micro_batch=budget)
    objective = Objective(Algo(entropy_coef=entropy))
    stats, found = gradient_of(learner, *batch, objective=objective, shares=shares(kind, batch))
    assert stats["loss"] == pytest.approx(right.item(), abs=1e-5)
    assert 0 < stats["clip_fraction"] < 1
    for a, b in zip(found, hand.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("budget", [10_000, 1])
def test_gspo_is_the_papers_with_one_ratio_and_one_weight_for_each_action(budget: int) -> None:
    """arXiv 2507.18071, equations 5 and 7: s_i = (pi / pi_old)^(1 / |y_i|), and the mean over sequences."""
    samples, advantages, weights = near_batch()
    for sample, values in zip(samples, advantages, strict=True):
        for span in sample.spans:
            values[span.start : span.end] = values[span.start]
    hand, per_action = make_model(), []
    for sample, values, mass in zip(samples, advantages, weights, strict=True):
        ids = torch.tensor(sample.ids)
        scores = hand(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
        for span in sample.spans:
            if mass[span.start]:
                places = torch.arange(span.start, span.end)
                away = scores[places - 1, ids[places]] - torch.tensor(sample.logprobs)[places]
                ratio, value = away.mean().exp(), float(values[span.start])
                per_action.append(torch.minimum(ratio * value, ratio.clamp(1 - 3e-4, 1 + 4e-4) * value))
    right = -torch.stack(per_action).mean()
    right.backward()
    learner = make_learner(make_model(), 1e-2, zero_stage=0, tokens_per_micro_batch=budget)
    given = shares("sequence", (samples, advantages, weights))
    objective = Objective(Algo(loss="gspo"))
    stats, found = gradient_of(learner, samples, advantages, weights, objective=objective, shares=given)
    assert stats["loss"] == pytest.approx(right.item(), abs=1e-5)
    assert 0 < stats["clip_fraction"] < 1
    for a, b in zip(found, hand.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad, atol=2e-5, rtol=1e-4)


def test_logits_in_chunks_give_the_bonus_the_same_gradient() -> None:
    batch = near_batch()
    found = []
    for chunk in (2**24, 300):  # one chunk; a few rows each, recomputed in the backward pass
        learner = make_learner(make_model(), 1e-2, zero_stage=0, gradient_checkpointing=chunk == 300)
        learner._engine.module._chunk = chunk
        found.append(gradient_of(learner, *batch, objective=Objective(Algo(entropy_coef=ENTROPY)))[1])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_metrics_are_means_over_tokens_whatever_the_aggregation() -> None:
    batch = near_batch()
    rows = [
        gradient_of(make_learner(make_model(), 1e-2, zero_stage=0), *batch, shares=shares(kind, batch))[0]
        for kind in KINDS
    ]
    for name in ("entropy", "clip_fraction", "kl", "mismatch", "action_tokens"):
        assert rows[0][name] == rows[1][name] == rows[2][name]
    assert len({row["loss"] for row in rows}) == 3


def test_demonstrations_weigh_the_same_in_every_aggregation() -> None:
    samples, advantages, weights = near_batch()
    some = Demonstrations(samples[:1], weights[:1], coef=2.0)
    none = [0 * values for values in advantages]  # what is left is the gradient of the demonstrations
    first, *others = (
        gradient_of(
            make_learner(make_model(), 1e-2, zero_stage=0),
            samples,
            none,
            weights,
            demonstrations=some,
            shares=shares(kind, (samples, advantages, weights)),
        )[1]
        for kind in KINDS
    )
    for gradients in others:
        for a, b in zip(first, gradients, strict=True):
            assert torch.equal(a, b)


def test_a_bonus_makes_a_policy_less_certain() -> None:
    samples, advantages, weights = near_batch()
    learner = make_learner(make_model(), 3e-3, epochs=4)
    objective = Objective(Algo(entropy_coef=1.0))
    none = [0 * values for values in advantages]
    rows = [take_step(learner, samples, none, weights, objective=objective) for _ in range(3)]
    assert rows[0]["entropy"] < rows[1]["entropy"] < rows[2]["entropy"]


def test_shares_of_an_action_without_weight_count_for_nothing() -> None:
    (sample,), weights = make_batch(2)[0][1:], np.zeros(0)
    first, second = sample.spans
    weights = np.where(np.arange(len(sample)) >= second.start, 0.5 * sample.action_mask, 0).astype(np.float32)
    mean = shares_of("sequence", [sample], [weights], LENGTH)
    assert mean is not None
    assert not mean.tokens[0][: first.end].any()
    assert mean.tokens[0].sum() == pytest.approx(1)
    assert mean.counts == [1.0]
    whole = shares_of("constant", [sample], [weights], LENGTH)
    assert whole is not None
    assert whole.tokens[0][second.start : second.end] == pytest.approx(0.5 / LENGTH)


def measure(kind: str, stage: int, lora: bool, rank: int = 0, processes: int = 1) -> dict[str, float]:
    """Two updates on this process's part of the batch, which is unequal: rank 0 has all but one sample."""
    model = make_model()
    if lora:
        model = adapted(model, Lora(rank=4, alpha=8, targets=["q_proj", "v_proj"]), 0)
    batch = near_batch()
    mine = slice(None) if processes == 1 else slice(0, -1) if rank == 0 else slice(-1, None)
    part = tuple(each[mine] for each in batch)
    learner = make_learner(model, 1e-3, zero_stage=stage, tokens_per_micro_batch=60)
    objective = Objective(Algo(entropy_coef=ENTROPY))
    rows = [take_step(learner, *part, objective=objective, shares=shares(kind, part)) for _ in range(2)]  # type: ignore[arg-type]
    return {f"{name}/{step}": value for step, row in enumerate(rows) for name, value in row.items()}


CASES = [[kind, stage, lora] for kind in KINDS[1:] for stage, lora in ((0, False), (2, True), (3, False))]
MAIN = """
import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]
import test_aggregation
test_aggregation.main(sys.argv[3])
"""


def main(out: str) -> None:
    """One of several processes."""
    from mappa_rl.distributed import barrier

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    found = [measure(*case, rank, 2) for case in CASES]  # type: ignore[arg-type]
    barrier()
    if rank == 0:
        Path(out).write_text(json.dumps(found), encoding="utf-8")


@pytest.mark.large
def test_two_processes_with_unequal_parts_give_what_one_gives(tmp_path: Path) -> None:
    """With whole, scattered and adapted weights; the count of actions is that of all processes together."""
    out = tmp_path / "out.json"
    command = [sys.executable, "-c", MAIN, str(HELPERS), str(Path(__file__).parent), str(out)]
    run_processes(command, 2, timeout_s=300)
    for case, found in zip(CASES, json.loads(out.read_text()), strict=True):
        assert found == pytest.approx(measure(*case), rel=1e-3, abs=1e-5), case  # type: ignore[arg-type]
