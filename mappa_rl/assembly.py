"""From a config to the parts of a run: policies with their learners, the reference, the environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

import mappa_env  # noqa: F401  (registers the environments)
from mappa_rl.algorithm import algorithm_of
from mappa_rl.algos import Algorithm
from mappa_rl.chat import ChatTokenizer
from mappa_rl.config import Config
from mappa_rl.engines.make import make_engines
from mappa_rl.learner import Learner
from mappa_rl.lora import LoraShape
from mappa_rl.policies import Policies, PolicyMap
from mappa_rl.rollout import Collector
from mappa_rl.schedule import Schedule
from mappa_rl.scoring import Reference
from mappa_rl.stopwatch import Stopwatch
from mappa_rl.warmstart import load_policy


@dataclass(slots=True)
class Parts:
    """Everything that learns or is learned from. Close the policies, whose engines may be processes."""

    policies: Policies
    learners: dict[str, Learner]
    reference: Reference
    algorithm: Algorithm


def assemble(config: Config, start: Path) -> Parts:
    """Every policy begins as a copy of the model in ``start``, which also is the frozen reference.

    Adapters share its weights, so that the reference costs no memory of its own.
    """
    model, tokenizer = load_policy(start, config.optim.dtype)
    env = gym.make(config.env.id, **config.env.options("train"))
    team = env.unwrapped.episode.card.team.names  # type: ignore[attr-defined]
    env.close()
    policy_map = PolicyMap.from_spec(config.policies.map, team, config.policies.frozen)
    shape = LoraShape(config.lora.rank, config.lora.alpha, config.lora.targets) if policy_map.lora else None
    policies = Policies.from_model(
        policy_map, model, ChatTokenizer(tokenizer), lora=shape, seed=config.run.seed,
        make_engines=lambda models: make_engines(config, models, start, policy_map.lora),
    )  # fmt: skip
    optim, temperature = config.optim, config.rollout.temperature
    learners = {
        name: Learner(
            policies[name].model,
            Schedule(
                optim.lr, kind=optim.schedule, warmup=optim.warmup_steps,
                total=config.run.steps * optim.epochs * optim.minibatches,
            ),
            betas=optim.betas, weight_decay=optim.weight_decay, grad_clip=optim.grad_clip,
            tokens_per_micro_batch=optim.tokens_per_micro_batch, zero_stage=optim.zero_stage,
            offload=optim.offload, gradient_checkpointing=optim.gradient_checkpointing,
            temperature=temperature, seed=config.run.seed + index,
        )
        for index, name in enumerate(policy_map.trainable)
    }  # fmt: skip
    reference = Reference(model, temperature=temperature, tokens_per_micro_batch=optim.tokens_per_micro_batch)
    return Parts(policies, learners, reference, algorithm_of(config))


def collector(
    config: Config,
    policies: Policies,
    split: Literal["train", "eval"],
    watch: Stopwatch | None = None,
    *,
    judged: bool = True,
) -> Collector:
    """Environments of one split, enough for a training step's episodes in flight.

    ``judged`` False: without the coach, whose look into files costs as much as the agents' own code, unless
    the agents hear what it says.
    """
    options = config.env.options(split)
    if not judged and config.env.coach_feedback == "off":
        options |= {"coach": "off"}
    make: Callable[[], gym.Env[Any, str]] = lambda: gym.make(config.env.id, **options)  # noqa: E731
    rollout = config.rollout
    return Collector(
        make, policies, in_flight=rollout.episodes_per_step, groups=rollout.groups, workers=rollout.workers,
        watch=watch,
    )  # fmt: skip
