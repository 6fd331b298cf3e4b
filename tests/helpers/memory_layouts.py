"""Layouts whose memory is estimated and measured: six ways to hold a team of three, on a CPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mappa_rl.config import Config, Model, load_config
from mappa_rl.config.environment import env_card
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import shape_of
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer
from mappa_rl.training.preflight.memory import Memory
from mappa_rl.training.preflight.resources import footprint
from several_processes import reports

SIZES = [
    "model.vocab_size=320",
    "model.hidden=512",
    "model.layers=8",
    "model.heads=8",
    "model.kv_heads=4",
    "model.mlp=1536",
    "optim.tokens_per_micro_batch=512",
    "optim.minibatches=1",
    "rollout.episodes_per_step=8",
    "algo.kl_coef=0.01",
    "run.torch_threads=1",
]
TINY = ["model.hidden=32", "model.layers=1", "model.mlp=64"]
LAYOUTS = {
    "separate": ["policies.map=separate"],
    "shared": ["policies.map=shared", "algo.kl_coef=0"],
    "lora": ["policies.map=lora"],
    "ppo, with a critic": ["policies.map=shared", "algo.name=ppo"],
    "two processes, ZeRO 2": ["policies.map=separate", "run.processes=2", "optim.zero_stage=2"],
    "two processes, ZeRO 3": [
        "policies.map=separate",
        "run.processes=2",
        "optim.zero_stage=3",
        "engine.name=vllm",  # what generates is elsewhere
    ],
}


class Measured(NamedTuple):
    """Bytes of the process that takes most; ``start``: of its start alone."""

    start: int
    peak: int


def config_of(layout: str, more: Sequence[str] = ()) -> Config:
    return load_config("demo", [*SIZES, *LAYOUTS[layout], *more])


def estimated(config: Config) -> Memory:
    policies = PolicyMap.from_spec(config.policies.map, env_card(config.env.id).team.names)
    return footprint(config, shape_of(config.model), policies).memory


def save_models(folder: Path, sizes: Sequence[str] = SIZES) -> tuple[Path, Path]:
    """The folders of a tiny model and of the one that is measured."""
    tokenizer = train_tokenizer(["1 + 1 = 2"], Model(vocab_size=261))
    tokenizer.add_tokens([f"<{k}>" for k in range(320 - len(tokenizer))])
    for name, overrides in (("tiny", [*sizes, *TINY]), ("whole", sizes)):
        tiny_qwen3(tokenizer, load_config("demo", overrides).model, seed=0).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder / "tiny", folder / "whole"


def measure(layout: str, models: tuple[Path, Path], more: Sequence[str] = ()) -> Measured:
    processes = config_of(layout, more).run.processes
    overrides = [*SIZES, *LAYOUTS[layout], *more]
    arguments = [*map(str, models), json.dumps(TINY), json.dumps(overrides)]
    rows = reports("measured_memory.py", processes, *arguments)
    return Measured(max(row["start"] for row in rows), max(row["peak"] for row in rows))
