"""Corrected actions in the learner: whose they are, what they weigh, and that they are learned."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from learner_helpers import make_batch, make_learner, make_model, make_reference, make_sample, take_step
from mappa_rl.coach.corrections import corrected_action_stats, corrected_turns, demonstrations
from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError
from mappa_rl.learner.learner import Learner
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Job
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.preflight import find_problems
from mappa_rl.training.trainer import train
from mappa_rl.types import Demonstrations
from tiny_run import TINY

SMALL = [
    *TINY,
    "warmstart.episodes=20",
    "warmstart.steps=2",
    "rollout.episodes_per_step=4",
    "rollout.max_new_tokens=8",
    "env.coach={name: rubric, corrector: compact}",
    "run.steps=2",
]


def gradient(learner: Learner) -> list[torch.Tensor]:
    """What the next update is made of; the update itself does not happen."""
    found: list[torch.Tensor] = []

    def caught() -> float:
        found.extend(p.grad.detach().clone() for p in learner.model.parameters())
        return 0.0

    learner._apply = caught  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("budget", [10_000, 40])
def test_demonstrations_add_their_likelihood_over_the_action_tokens(budget: int) -> None:
    samples, advantages, weights = make_batch(6)
    model = make_model()
    for sample, own in zip(samples, make_reference(copy.deepcopy(model)).logprobs(samples), strict=True):
        sample.logprobs[:] = own
    shown = [make_sample([(5, 4 + k)], [0.0], seed=90 + k) for k in range(3)]
    marks = [sample.action_mask.astype(np.float32) for sample in shown]

    plain = make_learner(copy.deepcopy(model), 1e-3, zero_stage=0, tokens_per_micro_batch=budget)
    alone = gradient(plain)
    take_step(plain, samples, advantages, weights)

    twin = copy.deepcopy(model)
    twin.zero_grad()
    for sample in shown:
        ids = torch.from_numpy(sample.ids)[None]
        logprobs = twin(input_ids=ids).logits[0, :-1].log_softmax(-1)
        picked = logprobs.gather(1, ids[0, 1:, None])[:, 0]
        (-picked[torch.from_numpy(sample.action_mask[1:])].sum()).backward()
    total = sum(float(w.sum()) for w in weights)
    wanted = [a + 0.7 * p.grad / total for a, p in zip(alone, twin.parameters(), strict=True)]

    both = make_learner(copy.deepcopy(model), 1e-3, zero_stage=0, tokens_per_micro_batch=budget)
    found = gradient(both)
    stats = take_step(both, samples, advantages, weights, demonstrations=Demonstrations(shown, marks, 0.7))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    assert stats["sft_tokens"] == sum(mark.sum() for mark in marks) == 15
    assert stats["sft_loss"] > 0


def test_more_minibatches_than_demonstrations() -> None:
    samples, advantages, weights = make_batch(6)
    shown = [make_sample([(4, 5)], [0.0], seed=9)]
    marks = [shown[0].action_mask.astype(np.float32)]
    learner = make_learner(make_model(), 1e-3, epochs=2, minibatches=3)
    before = learner.logprobs(shown)[0].sum()
    stats = take_step(
        learner,
        samples,
        [0 * a for a in advantages],
        weights,
        demonstrations=Demonstrations(shown, marks, 1.0),
    )
    assert stats["updates"] == 6
    assert stats["sft_tokens"] == 5
    assert learner.logprobs(shown)[0].sum() > before


def test_kept_corrections_become_samples_of_the_policy_that_erred(tmp_path: Path) -> None:
    """Random weights know nothing, so nearly every action is corrected."""
    from mappa_rl.telemetry.progress import Progress
    from mappa_rl.training.build import assemble, make_worker
    from mappa_rl.training.start import starting_model

    config = load_config("demo", [*SMALL, "sft.corrections_coef=0.5", "policies.frozen=[verifier_0]"])
    with Progress("test") as progress:
        parts = assemble(config, starting_model(config, tmp_path, progress))
    with make_worker(config, parts.policies, "train") as training:
        collected = training.collect([Job(i) for i in range(4)], Sampling(1.0, 8, 256, 1.0, {}))
    shown = demonstrations(corrected_turns(collected, parts.policies), 0.5)
    kept = [
        (turn, record)
        for rollout, trajectory in zip(collected.rollouts, collected.trajectories, strict=True)
        for turn, record in zip(rollout.turns, trajectory.actions, strict=True)
        if record.correction is not None and record.correction.kept and turn.policy != "verifier_0"
    ]
    assert kept
    assert set(shown) == {turn.policy for turn, _ in kept} <= {"solver_0", "coder_0"}
    for policy, mine in shown.items():
        chat = parts.policies[policy].chat
        own = [(turn, record) for turn, record in kept if turn.policy == policy]
        for sample, weights, (turn, record) in zip(mine.samples, mine.weights, own, strict=True):
            assert record.correction is not None
            assert sample.ids[: len(turn.context_ids)].tolist() == turn.context_ids
            assert chat.decode(sample.ids[len(turn.context_ids) :].tolist()) == record.correction.action
            assert np.array_equal(weights > 0, sample.action_mask)
    stats = corrected_action_stats(collected)
    assert stats["corrections/proposed"] >= stats["corrections/kept"] >= len(kept)
    assert stats["corrections/kept_gain"] >= 1


@pytest.mark.slow
def test_a_run_mixes_them_in_and_says_so(tmp_path: Path) -> None:
    train(load_config("demo", [*SMALL, "sft.corrections_coef=0.5"]), tmp_path)
    for row in read_metrics(tmp_path):
        assert row["corrections/kept"] > 0
        assert any(name.startswith("sft_loss/") for name in row)


def test_a_coach_that_does_not_correct_is_refused_before_anything_begins(tmp_path: Path) -> None:
    config = load_config("demo", [*SMALL, "sft.corrections_coef=0.5", "env.coach=rubric"])
    with pytest.raises(ConfigError, match=r"corrections_coef=0.5 needs a coach that corrects"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert any("needs a coach that corrects" in str(p) for p in find_problems(config, Path("runs")))


def test_the_hybrid_recipe_differs_from_its_baseline_in_corrections_alone() -> None:
    hybrid, plain = load_config("demo_dsbench_hybrid"), load_config("demo_dsbench")
    same = ["env.coach=rubric", "sft.corrections_coef=0.0"]
    assert hybrid != plain
    assert hybrid.with_overrides(same) == plain
