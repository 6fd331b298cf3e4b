"""One training step: play episodes, turn rewards into advantages, step every policy."""

from __future__ import annotations

import hashlib
import time

from mappa_rl.assembly import Parts
from mappa_rl.bias import CoachBias
from mappa_rl.config import Config
from mappa_rl.corrections import correction_stats, corrections
from mappa_rl.filters import choose
from mappa_rl.mismatch import correct
from mappa_rl.objective import objective_of
from mappa_rl.rollout import Collected, Collector, Job, Sampling
from mappa_rl.statistics import check_masked, rollout_stats
from mappa_rl.stopwatch import Stopwatch
from mappa_rl.types import StepStats


def train_step(
    config: Config, parts: Parts, training: Collector, step: int, watch: Stopwatch, bias: CoachBias
) -> dict[str, float]:
    """One step on fresh episodes; everything random in it follows from (run seed, step)."""
    started = time.perf_counter()
    rollout = config.rollout
    jobs = jobs_of(config, training, step)
    sampling = Sampling(rollout.temperature, rollout.max_new_tokens, rollout.max_context)
    collected = training.collect(jobs, sampling)
    values = rollout_stats(collected) | correction_stats(collected)
    check_masked(collected, rollout.max_masked, step)
    values |= bias.step(step, collected)
    played = time.perf_counter()
    with watch.at("learner"):
        if config.engine.sleep:
            parts.policies.sleep()
        learnt = learn(config, parts, collected)
        if config.engine.sleep:
            parts.policies.wake()
        values |= parts.policies.sync(step, frozen=config.engine.sleep)
    values |= {f"{name}/{policy}": value for policy, stats in learnt.items() for name, value in stats.items()}
    ended = time.perf_counter()
    values |= {"time/learn": ended - played, "time/step": ended - started}
    values["tokens_per_s"] = collected.tokens / (ended - started)
    return values


def learn(config: Config, parts: Parts, collected: Collected) -> dict[str, dict[str, float]]:
    """Step every trainable policy on its own samples; advantages are normalised within the policy."""
    stats, coef, algo = {}, config.sft.corrections_coef, config.algo
    corrected = corrections(collected, parts.policies, coef) if coef else {}
    objective = objective_of(algo)
    wanted = parts.algorithm.needs_reference or objective.kl_coef > 0
    for policy, played in parts.policies.samples(collected.rollouts).items():
        learner = parts.learners[policy]
        samples, chosen = choose(played, algo, config.rollout)
        reference = parts.reference.logprobs(samples) if wanted else None
        mended = correct(samples, learner, algo)
        credit = parts.algorithm.credit(mended.samples, reference)
        done = learner.step(
            mended.samples, mended.weigh(credit.advantages), credit.weights,
            objective=objective, reference=reference,
            epochs=config.optim.epochs, minibatches=config.optim.minibatches,
            demonstrations=corrected.get(policy),
        )  # fmt: skip
        own: dict[str, float] = credit.stats.get(policy, StepStats())
        credited = {k: v for k, v in own.items() if k != "reward"}  # logged by agent
        stats[policy] = {**chosen, **credited, **done, **mended.stats}
    return stats


def jobs_of(config: Config, training: Collector, step: int) -> list[Job]:
    """A step's episodes; with ``samples_per_task``, so many of each task in a row."""
    each, run = config.rollout.samples_per_task, config.run.seed
    seeds = [_seed(run, step, i) for i in range(config.rollout.episodes_per_step)]
    if each == 1:
        return [Job(seed) for seed in seeds]
    ids = training.task_ids
    return [Job(seed, ids[_seed(run, step, "task", i // each) % len(ids)]) for i, seed in enumerate(seeds)]


def _seed(*parts: object) -> int:
    """63 bits that follow from ``parts``."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
