"""Estimates of a dry run, held against what torch and DeepSpeed keep for a model of 18 M parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from learner_helpers import make_learner, make_scorer, take_step
from mappa_rl.config import Config, Lora, load_config
from mappa_rl.learner.checkpoint import Checkpoints
from mappa_rl.learner.packing import pack
from mappa_rl.models.lora import adapted
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import HEAD_DIM, KNOWN, Heads, Shape, adapter_parameters, shape_of
from mappa_rl.training.preflight.measured import ENGINE, HELPERS, PROCESS
from mappa_rl.training.preflight.memory import activations, checkpoint_bytes, engine_bytes, estimate
from mappa_rl.training.preflight.resources import footprint
from mappa_rl.types import Sample, Span
from memory_layouts import LAYOUTS, config_of, estimated, measure, save_models

QUICK = ("lora",)
ONE = PolicyMap.from_spec("shared", ["a_0"])
SIZES = [
    "model.vocab_size=320",
    "model.hidden=384",
    "model.layers=8",
    "model.heads=8",
    "model.kv_heads=4",
    "model.mlp=1536",
    "model.max_len=1024",
    "optim.tokens_per_micro_batch=1024",
]


def small(*overrides: str) -> Config:
    return load_config("demo", [*SIZES, *overrides])


SMOLLM2 = Shape(
    parameters=134_515_008,
    vocabulary=49_152,
    hidden=576,
    layers=30,
    heads=Heads(9, 3, 64),
    mlp=1536,
    sides={
        **dict.fromkeys(("q_proj", "o_proj"), 30 * (576 + 576)),
        **dict.fromkeys(("k_proj", "v_proj"), 30 * (576 + 192)),
        **dict.fromkeys(("gate_proj", "up_proj", "down_proj"), 30 * (576 + 1536)),
    },
    head_norms=False,
)
"""SmolLM2-135M-Instruct, which is not on every machine that runs the tests."""
TEAM = ["solver_0", "coder_0", "verifier_0"]


def model_of(config: Config, dtype: torch.dtype = torch.float32, family: str = "qwen3") -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    m = config.model
    families: dict[str, Any] = {"qwen3": Qwen3Config, "llama": LlamaConfig}
    shape = families[family](
        vocab_size=m.vocab_size,
        hidden_size=m.hidden,
        num_hidden_layers=m.layers,
        head_dim=HEAD_DIM,
        num_attention_heads=m.heads,
        num_key_value_heads=m.kv_heads,
        intermediate_size=m.mlp,
        max_position_embeddings=m.max_len,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    made: Any = Qwen3ForCausalLM(shape) if family == "qwen3" else LlamaForCausalLM(shape)
    return made.to(dtype)


def sample_of(length: int) -> Sample:
    mask = np.arange(length) > 0
    logprobs = np.where(mask, -5.0, 0.0).astype(np.float32)
    return Sample(np.full(length, 7, np.int64), mask, logprobs, (Span(1, length, 1.0, True),), "a", "a_0")


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "dtype"), [(0, "fp32"), (1, "fp32"), (2, "bf16")])
def test_weights_optimizer_and_disk_are_as_estimated(stage: int, dtype: str, tmp_path: Path) -> None:
    config = small(f"optim.zero_stage={stage}", f"optim.dtype={dtype}")
    shape = shape_of(config.model)
    model = model_of(config, torch.bfloat16 if dtype == "bf16" else torch.float32)
    assert sum(p.numel() for p in model.parameters()) == shape.parameters
    found = estimate(config, shape, ONE, processes=1, device="cpu")
    learner = make_learner(model, 1e-3, zero_stage=stage, tokens_per_micro_batch=64)
    samples = [sample_of(64)]
    mass = [samples[0].action_mask.astype(np.float32)]
    take_step(learner, samples, mass, mass)
    optimizer = learner._engine.optimizer
    inner = getattr(optimizer, "optimizer", optimizer)
    state = sum(t.nbytes for each in inner.state.values() for t in each.values() if torch.is_tensor(t))
    masters = sum(p.nbytes for group in inner.param_groups for p in group["params"]) if stage else 0
    assert state + masters == pytest.approx(found.optimizer, rel=0.01)
    assert sum(p.nbytes for p in model.parameters()) == pytest.approx(found.weights, rel=0.01)
    saved = Checkpoints(tmp_path, keep=2).save(1, {"a": learner}, {})
    disk = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
    assert disk == pytest.approx(checkpoint_bytes(config, shape, ONE), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "autocast"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("adapters", [False, True])
def test_activations_are_as_estimated(dtype: str, checkpointing: bool, family: str, adapters: bool) -> None:
    """What autograd saves, each storage once, without weights and without the logits."""
    length, w = 256, 2 if dtype == "bf16" else 4
    chosen = {"gradient_checkpointing": checkpointing, "autocast": dtype == "autocast"}
    switches = [f"optim.{key}={str(value).lower()}" for key, value in chosen.items()]
    config = small(f"optim.tokens_per_micro_batch={length}", *switches)
    shape = replace(shape_of(config.model), head_norms=family == "qwen3")
    model = model_of(config, torch.bfloat16 if dtype == "bf16" else torch.float32, family)
    if adapters:
        model = adapted(model, config.lora, 0)
    scorer = make_scorer(model, **chosen)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so that no address is used twice
        return tensor

    sample = sample_of(length)
    batch = pack([sample], [sample.action_mask.astype(np.float32)])
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        scorer(batch)
    measured = sum(size for size, _ in saved.values()) - 4 * length * shape.vocabulary
    expected = activations(config, shape, w, adapters)
    if checkpointing:  # the one layer that is computed again exists only in the backward pass
        assert length * w * shape.layers * shape.hidden <= measured <= expected
    else:
        assert measured == pytest.approx(expected, rel=0.08)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.large) for each in LAYOUTS],
)
def test_the_peak_of_real_processes_is_near_the_estimate(layout: str, models: tuple[Path, Path]) -> None:
    """Within 10 % on a quiet machine (benchmarks/memory_estimate.py); the heap's fragments vary."""
    found, wanted = measure(layout, models), estimated(config_of(layout))
    assert wanted.peak == pytest.approx(found.peak, rel=0.2)
    assert found.start < 1.1 * wanted.start
    assert wanted.start <= wanted.peak


def test_stages_offload_and_adapters_move_what_they_should() -> None:
    shape = KNOWN["Qwen/Qwen3-4B"]
    team = ["solver_0", "coder_0", "verifier_0"]
    separate = PolicyMap.from_spec("separate", team)

    def of(*overrides: str, processes: int = 1) -> Any:
        config = load_config("mathchat", ["optim.offload=false", "optim.zero_stage=2", *overrides])
        return estimate(config, shape, separate, processes=processes)

    plain = of()
    assert plain.weights == 3 * 2 * shape.parameters
    assert plain.optimizer == 3 * 12 * shape.parameters
    split = of(processes=4)
    assert split.optimizer == plain.optimizer // 4
    assert split.gradients == pytest.approx(plain.gradients / 4, rel=1e-6)
    assert split.weights == plain.weights
    assert of("optim.zero_stage=3", processes=4).weights == plain.weights // 4
    away = of("optim.offload=true")
    assert plain.host == 3 * 2 * shape.parameters  # what an engine that starts again is sent
    assert (away.optimizer, away.host - plain.host) == (0, plain.optimizer)
    assert of("optim.gradient_checkpointing=false").activations > 10 * plain.activations
    config = load_config("mathchat")
    beside = estimate(config, shape, separate, processes=1, engine_bytes=int(56e9))
    asleep = estimate(
        config.with_overrides(["engine.sleep=true"]), shape, separate, processes=1, engine_bytes=int(56e9)
    )
    assert beside.peak == beside.training + int(56e9)
    assert asleep.peak == max(asleep.training, asleep.held + asleep.transfer + int(56e9))
    lora = estimate(load_config("mathchat_lora"), shape, PolicyMap.from_spec("lora", team), processes=1)
    assert lora.reference == 0
    assert lora.weights < 1.1 * 2 * shape.parameters
    assert plain.peak >= plain.training > plain.held


def test_adapters_are_counted_exactly() -> None:
    config = small("lora.rank=4")
    made = adapted(model_of(config), Lora(rank=4, alpha=8, targets=config.lora.targets), 0)
    trained = sum(p.numel() for p in made.parameters() if p.requires_grad)
    assert adapter_parameters(shape_of(config.model), config.lora) == trained


@pytest.mark.parametrize(
    ("layout", "engines", "weights"),
    [
        (["policies.map=lora"], 1, 8),  # packed, and the place of the plain ones
        (["policies.map=lora", "engine.dtype=bf16"], 1, 4),
        (["policies.map=separate", "engine.dtype=bf16"], 3, 6),  # in shared memory too
        (["policies.map=separate"], 3, 4),  # in shared memory only
    ],
)
def test_vllm_on_a_cpu_is_counted_once_a_run(layout: list[str], engines: int, weights: int) -> None:
    config = small("engine.name=vllm", "engine.kv_cache_mb=100", "run.processes=2", *layout)
    shape = shape_of(config.model)
    team = PolicyMap.from_spec(config.policies.map, ["a_0", "b_0", "c_0"])
    need = footprint(config, shape, team)
    adapters = 4 * 3 * (weights // 2) * adapter_parameters(shape, config.lora) if team.lora else 0
    assert need.engines == engines * (ENGINE + weights * shape.parameters + 100 * 2**20) + adapters
    assert footprint(config, shape, team, plays=False).engines == 0
    assert footprint(small(*layout[:1]), shape, team).engines == 0


@pytest.mark.parametrize(
    ("recipe", "overrides", "measured"),
    [
        ("smollm2_lora", ["engine.dtype=bf16", "engine.kv_cache_mb=512"], 1_850_000_000),
        ("smollm2", ["policies.map=shared", "engine.dtype=fp32", "engine.kv_cache_mb=1024"], 2_143_000_000),
    ],
)
def test_an_engine_of_a_language_model_is_near_what_was_measured(
    recipe: str, overrides: list[str], measured: int
) -> None:
    """PSS of vLLM's processes on two cores, while they answered 32 requests or more."""
    config = load_config(recipe, ["engine.name=vllm", *overrides])
    policies = PolicyMap.from_spec(config.policies.map, TEAM)
    assert sum(engine_bytes(config, SMOLLM2, policies)) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(
    ("autocast", "whole", "adapters"),
    [("false", 361_740_000, 328_320_000), ("true", 512_640_000, 486_390_000)],
)
def test_a_pass_over_smollm2_keeps_what_was_measured(autocast: str, whole: int, adapters: int) -> None:
    """Bytes that torch saved of 256 tokens of SmolLM2-135M-Instruct with fp32 weights, its logits aside."""
    tokens = "optim.tokens_per_micro_batch=256"
    config = load_config("smollm2_lora", [tokens, f"optim.autocast={autocast}"])
    assert activations(config, SMOLLM2, 4, False) == pytest.approx(whole, rel=0.02)
    assert activations(config, SMOLLM2, 4, True) == pytest.approx(adapters, rel=0.02)


def test_the_warm_start_counts_in_the_first_process_before_engines_start() -> None:
    config = load_config("smollm2_lora", ["engine.name=vllm", "engine.dtype=bf16", "run.processes=2"])
    policies = PolicyMap.from_spec("lora", TEAM)
    need = footprint(config, SMOLLM2, policies)
    assert need.warm > (4 + 4 + 8) * SMOLLM2.parameters + activations(config, SMOLLM2, 4, False)
    assert need.main == 2 * PROCESS + HELPERS + 2 * need.memory.peak + need.engines
    alone = load_config("smollm2_lora", ["engine.name=hf"])
    first = footprint(alone, SMOLLM2, policies)
    assert first.main == PROCESS + HELPERS + first.warm
    again = footprint(alone.with_overrides(["warmstart.path=elsewhere"]), SMOLLM2, policies)
    assert again.warm == 0
    assert again.main < first.main
