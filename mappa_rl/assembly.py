"""From a config to the parts of a run: policies with their learners, the reference, the environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.registration import card_of, find_card
from mappa_rl.algorithm import algorithm_of
from mappa_rl.algos import Algorithm, CriticAlgorithm
from mappa_rl.chat import ChatTokenizer, declared_stops
from mappa_rl.collector import Collector
from mappa_rl.config import Config
from mappa_rl.engines.make import make_engines
from mappa_rl.errors import RunError
from mappa_rl.learner import Learner
from mappa_rl.lora import LoraShape
from mappa_rl.parallel import Processes, SharedLearner, SharedReference
from mappa_rl.policies import Policies, PolicyMap
from mappa_rl.sampling import policy_temperatures
from mappa_rl.schedule import Schedule
from mappa_rl.scoring import Reference
from mappa_rl.stopwatch import Stopwatch
from mappa_rl.stream import Stream
from mappa_rl.warmstart import load_policy


@dataclass(slots=True)
class Parts:
    """Everything that learns or is learned from. The engines share the learners' weights, but for
    those of a stream: they may be at work while a learner is. Close the policies: engines may be processes.

    ``references``: trainable policy -> the frozen start, at the temperature that the policy is sampled with.
    """

    policies: Policies
    learners: Mapping[str, Learner | SharedLearner]
    references: Mapping[str, Reference | SharedReference]
    algorithm: Algorithm
    processes: Processes


def assemble(config: Config, start: Path, *, plays: bool = True) -> Parts:
    """Every policy begins as a copy of the model in ``start``, which also is the frozen reference.

    Adapters share its weights, so that the reference costs no memory of its own. Unless it ``plays``, no
    engine is started that has a process of its own.
    """
    policies, model = players(config, start, plays=plays)
    try:
        return _assembled(config, policies, model)
    except BaseException:
        policies.close()  # engines may be processes
        raise


def _assembled(config: Config, policies: Policies, model: Any) -> Parts:
    policy_map = policies.map
    policy_map.check_trainable(config.policies.lr, "policies.lr")
    temperatures = policy_temperatures(config, policy_map)
    optim, algorithm = config.optim, algorithm_of(config)
    updates = config.run.steps * optim.epochs * optim.minibatches
    learners = {
        name: Learner(
            policies[name].model,
            Schedule(
                config.policies.lr.get(name, optim.lr), kind=optim.schedule, warmup=optim.warmup(updates),
                total=updates, floor=optim.lr_floor,
            ),
            betas=optim.betas, weight_decay=optim.weight_decay, grad_clip=optim.grad_clip,
            tokens_per_micro_batch=optim.tokens_per_micro_batch, zero_stage=optim.zero_stage,
            offload=optim.offload, gradient_checkpointing=optim.gradient_checkpointing,
            temperature=temperatures[name], attention=optim.attention,
            critic=isinstance(algorithm, CriticAlgorithm), seed=config.run.seed + index,
        )
        for index, name in enumerate(policy_map.trainable)
    }  # fmt: skip
    scorers = {
        t: Reference(
            model, temperature=t, tokens_per_micro_batch=optim.tokens_per_micro_batch,
            attention=optim.attention,
        )
        for t in sorted(set(temperatures.values()))
    }  # fmt: skip
    references = {name: scorers[t] for name, t in temperatures.items()}
    processes = Processes({**learners, **{_reference(t): scorer for t, scorer in scorers.items()}})
    if processes.count != config.run.processes:
        raise RunError(
            f"run.processes={config.run.processes}, but {processes.count} were started: `mappa-rl train` "
            "starts as many as it needs."
        )
    if processes.count == 1:
        return Parts(policies, learners, references, algorithm, processes)
    policies.before_sync = processes.gather
    return Parts(
        policies,
        {name: SharedLearner(name, processes, learner) for name, learner in learners.items()},
        {name: SharedReference(_reference(t), processes) for name, t in temperatures.items()},
        algorithm,
        processes,
    )


def players(config: Config, start: Path, *, plays: bool = True) -> tuple[Policies, Any]:
    """The policies of a run alone, which begin as the model in ``start``, and that model."""
    model, tokenizer = load_policy(start, config.optim.dtype)
    team = find_card(card_of(config.env.id)).team.names  # the card alone: data and sandbox may be elsewhere
    policy_map = PolicyMap.from_spec(config.policies.map, team, config.policies.frozen)
    shape = LoraShape(config.lora.rank, config.lora.alpha, config.lora.targets) if policy_map.lora else None
    chat = ChatTokenizer(tokenizer, more_stop_ids=declared_stops(model))
    engines = partial(make_engines, config, folder=start, lora=policy_map.lora)
    policies = Policies.from_model(
        policy_map, model, chat, lora=shape, seed=config.run.seed, shared=not config.streamed,
        make_engines=engines if plays and config.engine.name == "vllm" else None,
    )  # fmt: skip
    return policies, model


def _reference(temperature: float) -> str:
    """A name that no policy can have."""
    return f"the reference at {temperature}"


def collector(
    config: Config,
    policies: Policies,
    split: Literal["train", "eval"],
    watch: Stopwatch | None = None,
    *,
    judged: bool = True,
) -> Collector | Stream:
    """Environments of one split, enough for a training step's episodes in flight (and ``rollout.staleness``
    more of them).

    ``judged`` False: without the coach, whose look into files costs as much as the agents' own code, unless
    the agents hear what it says.
    """
    options = config.env.options(split)
    if not judged and config.env.coach_feedback == "off":
        options |= {"coach": "off"}
    make: Callable[[], gym.Env[Any, str]] = lambda: gym.make(config.env.id, **options)  # noqa: E731
    rollout = config.rollout
    if config.streamed:
        return Stream(
            make, policies, in_flight=rollout.episodes_per_step * (1 + rollout.staleness),
            max_episode_s=rollout.max_episode_s, retries=rollout.retries, watch=watch,
        )  # fmt: skip
    return Collector(
        make, policies, in_flight=rollout.episodes_per_step, groups=rollout.groups, workers=rollout.workers,
        watch=watch,
    )  # fmt: skip
