"""One training step: play episodes, turn rewards into advantages, step every policy."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from mappa_env.types import Trajectory
from mappa_rl.assembly import Parts
from mappa_rl.bias import CoachBias
from mappa_rl.config import Config
from mappa_rl.corrections import corrected_turns, correction_stats, demonstrations
from mappa_rl.filters import choose
from mappa_rl.mismatch import correct
from mappa_rl.objective import objective_of
from mappa_rl.policies import Policies
from mappa_rl.records import Recorded
from mappa_rl.rollout import Collected, Collector, Job, Sampling
from mappa_rl.service_stats import service_stats
from mappa_rl.statistics import advantage_stats, check_masked, rollout_stats
from mappa_rl.stopwatch import Stopwatch
from mappa_rl.stratify import stratified
from mappa_rl.types import StepStats


def train_step(
    config: Config,
    parts: Parts,
    training: Collector,
    step: int,
    watch: Stopwatch,
    bias: CoachBias,
    record: Callable[[Recorded, Sequence[Trajectory]], None],
) -> dict[str, float]:
    """One step on fresh episodes; everything random in it follows from (run seed, step).

    ``record`` is handed the episodes before they are learned from.
    """
    started = time.perf_counter()
    collected = play(config, training, step)
    values = rollout_stats(collected) | service_stats(collected.trajectories) | correction_stats(collected)
    check_masked(collected, config.rollout.max_masked, step)
    values |= bias.step(step, collected)
    recorded = as_recorded(config, parts.policies, step, collected)
    record(recorded, collected.trajectories)
    played = time.perf_counter()
    with watch.at("learner"):
        values |= learn(config, parts, recorded)
    ended = time.perf_counter()
    values |= {"time/learn": ended - played, "time/step": ended - started}
    values["tokens_per_s"] = collected.tokens / (ended - started)
    return values


def play(config: Config, training: Collector, step: int) -> Collected:
    """A step's episodes."""
    rollout = config.rollout
    sampling = Sampling(rollout.temperature, rollout.max_new_tokens, rollout.max_context)
    return training.collect(jobs_of(config, training, step), sampling)


def as_recorded(config: Config, policies: Policies, step: int, collected: Collected) -> Recorded:
    """All that a step learns from."""
    corrected = corrected_turns(collected, policies) if config.sft.corrections_coef else []
    return Recorded(step, collected.rollouts, corrected, collected.tokens)


def learn(config: Config, parts: Parts, recorded: Recorded) -> dict[str, float]:
    """Step every trainable policy on its own samples; advantages are normalised within the policy.

    Metrics are named ``<stat>/<policy>``.
    """
    values: dict[str, float] = {}
    algo = config.algo
    corrected = demonstrations(recorded.corrected, config.sft.corrections_coef)
    objective = objective_of(algo)
    wanted = parts.algorithm.needs_reference or objective.kl_coef > 0
    for policy, played in parts.policies.samples(recorded.rollouts).items():
        learner = parts.learners[policy]
        samples, chosen = choose(played, algo, config.rollout)
        reference = parts.reference.logprobs(samples) if wanted else None
        mended = correct(samples, learner, algo)
        credit = parts.algorithm.credit(mended.samples, reference)
        advantages = mended.weigh(credit.advantages)
        done = learner.step(
            mended.samples, advantages, credit.weights,
            objective=objective, reference=reference,
            epochs=config.optim.epochs, minibatches=config.optim.minibatches,
            demonstrations=corrected.get(policy),
        )  # fmt: skip
        own: dict[str, float] = credit.stats.get(policy, StepStats())
        credited = {k: v for k, v in own.items() if k != "reward"}  # logged by agent
        stats = {**chosen, **credited, **advantage_stats(advantages, credit.weights), **done, **mended.stats}
        values |= {f"{name}/{policy}": value for name, value in stats.items()}
    return values


def jobs_of(config: Config, training: Collector, step: int) -> list[Job]:
    """A step's episodes; with ``samples_per_task``, so many of each task in a row."""
    rollout, run = config.rollout, config.run.seed
    each = rollout.samples_per_task
    seeds = [_seed(run, step, i) for i in range(rollout.episodes_per_step)]
    if rollout.stratify != "off":
        count = rollout.episodes_per_step // each
        tasks = stratified(training.families, count, rollout.stratify, _seed(run, step, "strata"))
        return [Job(seed, tasks[i // each]) for i, seed in enumerate(seeds)]
    if each == 1:
        return [Job(seed) for seed in seeds]
    ids = training.task_ids
    return [Job(seed, ids[_seed(run, step, "task", i // each) % len(ids)]) for i, seed in enumerate(seeds)]


def _seed(*parts: object) -> int:
    """63 bits that follow from ``parts``."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
