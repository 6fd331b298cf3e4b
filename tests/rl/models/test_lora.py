"""Policies as adapters on one frozen base: small, apart from each other, saved and merged exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from engine_helpers import make_request
from learner_helpers import make_batch, make_learner, make_model, make_reference, parameters, take_step
from mappa_rl.config import Lora, load_config
from mappa_rl.engines.hf.engine import HFEngine
from mappa_rl.errors import CheckpointError, PolicyError
from mappa_rl.learner.learner import Learner
from mappa_rl.models.lora import adapted, merged
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from tiny_run import TINY

SHAPE = Lora(rank=4, alpha=8, targets=["q_proj", "v_proj", "down_proj"])


def own(module: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in module.parameters() if p.requires_grad])


def learner_of(module: Any, **options: Any) -> Learner:
    return make_learner(module, 1e-2, **{"zero_stage": 0, **options})


def test_an_adapter_begins_as_the_base_and_costs_only_itself() -> None:
    base = make_model()
    a, b = adapted(base, SHAPE, 0), adapted(base, SHAPE, 1)
    samples, _, _ = make_batch()
    for right, found in zip(
        make_reference(base).logprobs(samples), learner_of(a).logprobs(samples), strict=True
    ):
        np.testing.assert_array_equal(found, right)
    mine = {p.data_ptr() for p in a.parameters() if p.requires_grad}
    assert {p.data_ptr() for p in a.parameters()} - mine == {p.data_ptr() for p in base.parameters()}
    assert not torch.equal(own(a), own(b))
    assert torch.equal(own(a), own(adapted(base, SHAPE, 0)))


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_step_changes_its_own_adapter_alone(stage: int) -> None:
    base = make_model()
    a, b = adapted(base, SHAPE, 0), adapted(base, SHAPE, 1)
    samples, advantages, weights = make_batch()
    before, others, start = parameters(base), own(b), own(a)
    right = make_reference(base).logprobs(samples)
    learner, other = learner_of(a, zero_stage=stage), learner_of(b, zero_stage=stage)
    for _ in range(2):
        assert take_step(learner, samples, advantages, weights)["grad_norm"] > 0
    assert not torch.equal(own(a), start)
    assert torch.equal(own(b), others)
    assert torch.equal(parameters(base), before)
    for values, found in zip(right, make_reference(base).logprobs(samples), strict=True):
        np.testing.assert_array_equal(found, values)
    for values, found in zip(right, other.logprobs(samples), strict=True):
        np.testing.assert_array_equal(found, values)


def test_recomputed_layers_give_the_same_gradient() -> None:
    samples, advantages, weights = make_batch()
    norms = [
        take_step(
            learner_of(adapted(make_model(), SHAPE, 0), gradient_checkpointing=each),
            samples,
            advantages,
            weights,
        )["grad_norm"]
        for each in (False, True)
    ]
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)


@pytest.mark.parametrize("stage", [0, 2])
def test_saved_is_the_adapter_and_restored_is_exactly_it(tmp_path: Path, stage: int) -> None:
    base = make_model()
    samples, advantages, weights = make_batch()
    learner = learner_of(adapted(base, SHAPE, 0), zero_stage=stage)
    take_step(learner, samples, advantages, weights)
    learner.save(tmp_path)
    state = torch.load(tmp_path / "engine" / "mp_rank_00_model_states.pt", weights_only=False)
    assert sum(value.numel() for value in state["module"].values()) == own(learner.model).numel()
    other = learner_of(adapted(base, SHAPE, 5), zero_stage=stage)
    other.load(tmp_path)
    assert torch.equal(own(other.model), own(learner.model))
    assert take_step(other, samples, advantages, weights) == take_step(learner, samples, advantages, weights)
    assert torch.equal(own(other.model), own(learner.model))
    for wrong in (adapted(base, SHAPE.model_copy(update={"rank": 2}), 0), make_model()):
        with pytest.raises(CheckpointError, match="another adapter, or none"):
            learner_of(wrong, zero_stage=stage).load(tmp_path)


def test_the_export_is_a_plain_folder_that_plays_like_the_adapter(tmp_path: Path) -> None:
    base = make_model()
    samples, advantages, weights = make_batch()
    learner = learner_of(adapted(base, SHAPE, 0))
    for _ in range(3):
        take_step(learner, samples, advantages, weights)
    learner.export(tmp_path)
    plain: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="float32")
    assert set(load_file(tmp_path / "model.safetensors")) == set(base.state_dict()) - {"lm_head.weight"}
    assert set(merged(learner.model)) == set(base.state_dict())
    for right, found in zip(learner.logprobs(samples), make_reference(plain).logprobs(samples), strict=True):
        np.testing.assert_allclose(found, right, atol=1e-5)
    requests = [make_request(tuple(s.ids[:4].tolist()), seed=k, max_tokens=12) for k, s in enumerate(samples)]
    played, replayed, before = (HFEngine(model).generate(requests) for model in (learner.model, plain, base))
    assert [g.ids for g in played] == [g.ids for g in replayed]
    assert [g.ids for g in played] != [g.ids for g in before]


def test_unknown_layers_are_refused_and_lora_maps_every_agent() -> None:
    with pytest.raises(PolicyError, match=r"lora.targets=\['c_attn'\]: Qwen3ForCausalLM has the layers"):
        adapted(make_model(), SHAPE.model_copy(update={"targets": ["q_proj", "c_attn"]}), 0)
    with pytest.raises(PolicyError, match=r"\['lm_head'\]"):  # tied: its update would not be saved
        adapted(make_model(), SHAPE.model_copy(update={"targets": ["lm_head"]}), 0)
    policy_map = PolicyMap.from_spec("lora", ["solver_0", "coder_0"])
    assert policy_map.lora
    assert policy_map.names == ("solver_0", "coder_0")


@pytest.mark.slow
def test_a_run_trains_an_adapter_per_agent_and_leaves_plain_models(tmp_path: Path) -> None:
    config = load_config(
        "demo",
        [
            *TINY,
            "policies.map=lora",
            "lora.rank=4",
            "warmstart.episodes=60",
            "warmstart.steps=20",
            "warmstart.warmup_steps=2",
            "rollout.episodes_per_step=4",
            "eval.episodes=3",
            "run.steps=2",
        ],
    )
    out = train(config, tmp_path / "run")
    first, second = read_metrics(out)
    agents = ("solver_0", "coder_0", "verifier_0")
    assert all(abs(first[f"reference_kl/{name}"]) < 1e-5 for name in agents)  # adapters begin as the base
    assert all(row[f"mismatch/{name}"] < 1e-4 for row in (first, second) for name in agents)
    weights = [
        load_file(out / "checkpoints" / "step-000002" / "policies" / name / "model" / "model.safetensors")
        for name in agents
    ]
    start = load_file(out / "warmstart" / "model.safetensors")
    key, kept = "model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight"
    assert all(set(found) == set(start) for found in weights)
    assert len({found[key].numpy().tobytes() for found in (start, *weights)}) == 4
    assert all(torch.equal(found[kept], start[kept]) for found in weights)
