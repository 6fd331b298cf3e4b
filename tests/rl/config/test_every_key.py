"""Every key can be set, by an override and in a file, and arrives; the reference page names them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mappa_rl.config import Config, load_config
from mappa_rl.config.overrides import keys, write_yaml
from mappa_rl.config.reference import reference
from paths import ROOT

DEFAULTS = {name: default for name, default, _ in keys(Config)}

VALUES: dict[str, Any] = {
    "env.id": "mappa/AIME-v0",
    "env.tasks_train": "mine.jsonl",
    "env.tasks_eval": "held_out.jsonl",
    "env.task_options": {"levels": [1, 2]},
    "env.prompts": "full",
    "env.coach": "off",
    "env.coach_feedback": "agents",
    "env.judging": "deferred",
    "env.sandbox": "null",
    "env.shaping": "mixed",
    "policies.map": "shared",
    "policies.frozen": ["solver_0"],
    "policies.models": {"solver_0": "models/SmolLM2-135M-Instruct"},
    "policies.lr": {"solver_0": 0.001},
    "placement.crews": {"solver_0": 1},
    "placement.engines": {"coder_0": {"replicas": 2, "tensor_parallel": 1, "devices": [1, 2]}},
    "lora.rank": 8,
    "lora.alpha": 16,
    "lora.targets": ["q_proj"],
    "engine.name": "vllm",
    "engine.dtype": "bf16",
    "engine.tensor_parallel": 2,
    "engine.replicas": 2,
    "engine.devices": [1],
    "engine.memory_fraction": 0.7,
    "engine.kv_cache_mb": 512,
    "engine.max_num_seqs": 64,
    "engine.eager": True,
    "engine.sleep": True,
    "cluster.name": "ray",
    "cluster.address": "10.0.0.1:6379",
    "cluster.env_workers": 4,
    "cluster.envs_per_worker": 4,
    "cluster.env_cpus": 0.5,
    "cluster.env_node": "environments",
    "cluster.engine_cpus": 2.0,
    "cluster.engine_node": "engines",
    "cluster.learner_cpus": 2.0,
    "cluster.learner_node": "learners",
    "cluster.restarts": 1,
    "cluster.moves": 1,
    "cluster.placement_s": 60.0,
    "model.kind": "Qwen/Qwen3-4B",
    "model.hidden": 64,
    "model.layers": 3,
    "model.heads": 8,
    "model.kv_heads": 4,
    "model.mlp": 128,
    "model.vocab_size": 400,
    "model.tokenizer_style": "code",
    "model.max_len": 1024,
    "warmstart.path": "runs/x/warmstart",
    "warmstart.episodes": 10,
    "warmstart.team": "expert",
    "warmstart.steps": 100,
    "warmstart.until": 0.4,
    "warmstart.check_every": 20,
    "warmstart.check_episodes": 30,
    "warmstart.batch_size": 8,
    "warmstart.lr": 0.001,
    "warmstart.warmup_steps": 5,
    "warmstart.prompt_weight": 0.2,
    "warmstart.name_weight": 9.0,
    "warmstart.renamed": 5,
    "rollout.episodes_per_step": 64,
    "rollout.group_size": 2,
    "rollout.tasks": 100,
    "rollout.tasks_seed": 7,
    "rollout.draw": "passes",
    "rollout.refill_rounds": 2,
    "rollout.schedule": "async",
    "rollout.stratify": "equal",
    "rollout.lockstep_groups": 4,
    "rollout.workers": 2,
    "rollout.staleness": 1,
    "rollout.update_between_turns": False,
    "rollout.max_episode_s": 60.0,
    "rollout.retries": 2,
    "rollout.temperature": 0.7,
    "rollout.max_new_tokens": 32,
    "rollout.max_context": 256,
    "rollout.agents": {"solver_0": {"temperature": 0.8, "max_new_tokens": 24}},
    "rollout.max_masked_fraction": 0.25,
    "algo.name": "grpo",
    "algo.options": {"omega": 0.5},
    "algo.mode": "return_to_go",
    "algo.gamma": 0.9,
    "algo.reward_scale": 1.0,
    "algo.reward_clip": 5.0,
    "algo.kl_coef": 0.1,
    "algo.kl": "loss_k3",
    "algo.mask_truncated": True,
    "algo.overlong_penalty": 1.0,
    "algo.overlong_buffer": 8,
    "algo.drop_zero_variance_groups": True,
    "algo.loss": "gspo",
    "algo.loss_options": {"scale": 2.0},
    "algo.aggregation": "sequence",
    "algo.entropy_coef": 0.01,
    "algo.clip_low": 0.1,
    "algo.clip_high": 0.28,
    "algo.dual_clip": 3.0,
    "algo.importance_sampling": "tis",
    "algo.importance_bounds": [0.2, 4.0],
    "sft.corrections_coef": 1.0,
    "optim.lr": 0.01,
    "optim.schedule": "cosine",
    "optim.warmup_steps": 3,
    "optim.warmup_ratio": 0.1,
    "optim.min_lr_ratio": 0.2,
    "optim.betas": [0.8, 0.99],
    "optim.weight_decay": 0.1,
    "optim.grad_clip": 0.5,
    "optim.epochs": 2,
    "optim.minibatches": 4,
    "optim.tokens_per_micro_batch": 4096,
    "optim.dtype": "bf16",
    "optim.autocast": True,
    "optim.attention": "sdpa",
    "optim.gradient_checkpointing": True,
    "optim.zero_stage": 2,
    "optim.offload": True,
    "eval.episodes": 40,
    "eval.also": {"mappa/AIME-v0": 8},
    "eval.group_size": 4,
    "eval.temperatures": [0.6, 1.0],
    "eval.top_p": 0.9,
    "eval.max_new_tokens": 48,
    "eval.agents": {"solver_0": {"temperature": 0.0, "max_new_tokens": None}},
    "eval.calibration_temperatures": [],
    "eval.calibration_episodes": 10,
    "eval.every": 5,
    "eval.validation_tasks": 4,
    "bias.test_every": 5,
    "bias.window": 512,
    "bias.correct": "mean",
    "bias.anchors": 64,
    "bias.anchors_every": 5,
    "run.steps": 7,
    "run.seed": 3,
    "run.out": "runs/mine",
    "run.checkpoint_every": 2,
    "run.keep_checkpoints": 5,
    "run.processes": 2,
    "run.torch_threads": 4,
    "run.tensorboard": False,
    "run.checkpoints_mb": 500,
    "optim.max_skipped_updates": 0,
    "run.wandb": "project",
    "run.weave": "project",
    "run.trace_every": 2,
    "run.record_rollouts": True,
}
"""A value other than the default for every key."""

NEEDS: dict[str, list[str]] = {
    **{key: ["cluster=ray"] for key in VALUES if key.startswith("cluster.") and key != "cluster.name"},
    "placement.engines": ["engine.name=vllm"],
    "engine.dtype": ["engine.name=vllm"],
    "engine.tensor_parallel": ["engine.name=vllm"],
    "engine.replicas": ["engine.name=vllm"],
    "engine.devices": ["engine.name=vllm"],
    "engine.memory_fraction": ["engine.name=vllm"],
    "engine.kv_cache_mb": ["engine.name=vllm"],
    "engine.max_num_seqs": ["engine.name=vllm"],
    "engine.eager": ["engine.name=vllm"],
    "engine.sleep": ["engine.name=vllm"],
    "algo.drop_zero_variance_groups": ["rollout.group_size=2"],
    "rollout.refill_rounds": ["rollout.group_size=2", "algo.drop_zero_variance_groups=true"],
    "rollout.staleness": ["algo.importance_sampling=tis"],
    "optim.min_lr_ratio": ["optim.schedule=linear"],
    "optim.dtype": ["optim.zero_stage=2"],
    "optim.offload": ["optim.zero_stage=2"],
}
"""What else a key's value asks for."""


def test_no_key_is_left_out_and_no_value_is_the_default() -> None:
    assert set(VALUES) == set(DEFAULTS)
    assert [key for key, value in VALUES.items() if value == DEFAULTS[key]] == []


@pytest.mark.parametrize("key", VALUES)
def test_a_key_arrives_from_an_override_and_from_a_file(key: str, tmp_path: Path) -> None:
    section, name = key.split(".")
    path = tmp_path / "base.yaml"
    path.write_text("")
    needed = load_config(path, NEEDS.get(key, []))
    by_override = needed.with_overrides([f"{key}={json.dumps(VALUES[key])}"])
    data = needed.model_dump(mode="json", exclude_unset=True)
    data.setdefault(section, {})[name] = VALUES[key]
    path.write_text(write_yaml(data))
    by_file = load_config(path)
    assert by_override == by_file != needed
    assert by_file.model_dump(mode="json")[section][name] == VALUES[key]


def test_the_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m mappa_rl.config.reference > docs/reference.md"
    assert [key for key in DEFAULTS if f"| `{key}` |" not in page] == []
