"""One training step: play episodes, turn rewards into advantages, step every policy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from mappa_env.types import Trajectory
from mappa_rl.algos import Algorithm, Credit, CriticAlgorithm
from mappa_rl.assembly import Parts
from mappa_rl.batches import Batches
from mappa_rl.bias import CoachBias
from mappa_rl.config import Config
from mappa_rl.corrections import corrected_turns, correction_stats, demonstrations
from mappa_rl.critic import Criticism, ValueLoss
from mappa_rl.errors import ConfigError
from mappa_rl.filters import choose
from mappa_rl.learner import Learner
from mappa_rl.mismatch import correct
from mappa_rl.objective import objective_of
from mappa_rl.parallel import SharedLearner
from mappa_rl.policies import Policies
from mappa_rl.progress import Progress
from mappa_rl.records import Recorded
from mappa_rl.rollout import Collected
from mappa_rl.service_stats import service_stats
from mappa_rl.statistics import advantage_stats, check_masked, rollout_stats
from mappa_rl.types import Floats, Sample, StepStats


def train_step(
    config: Config,
    parts: Parts,
    batches: Batches,
    step: int,
    progress: Progress,
    bias: CoachBias,
    record: Callable[[Recorded, Sequence[Trajectory]], None],
) -> dict[str, float]:
    """One step; on policy everything random in it follows from (run seed, step).

    ``record`` is handed the episodes before they are learned from.
    """
    started = time.perf_counter()
    collected = batches.take(step)
    masked = Counter(reason[:200] for reason in collected.reasons if reason)
    for reason, count in masked.most_common(3):
        progress.note(f"step {step}: masked {count} of {len(collected.rollouts)} episodes: {reason}")
    values = rollout_stats(collected) | service_stats(collected.trajectories) | correction_stats(collected)
    check_masked(collected, config.rollout.max_masked, step)
    values |= bias.step(step, collected)
    recorded = as_recorded(config, parts.policies, step, collected)
    record(recorded, collected.trajectories)
    played = time.perf_counter()
    with progress.watch.at("learner"):
        if config.engine.sleep:
            parts.policies.sleep()
        values |= learn(config, parts, recorded)
        if config.engine.sleep:
            parts.policies.wake()
    learned = time.perf_counter()
    values |= batches.update(step)
    ended = time.perf_counter()
    values |= {"time/learn": learned - played, "time/sync": ended - learned, "time/step": ended - started}
    values["tokens_per_s"] = collected.tokens / (ended - started)
    return values


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
        reference = parts.references[policy].logprobs(samples) if wanted else None
        mended = correct(samples, learner, algo)
        credit, criticism = _credit(parts.algorithm, learner, mended.samples, reference)
        advantages = mended.weigh(credit.advantages)
        done = learner.step(
            mended.samples, advantages, credit.weights,
            objective=objective, reference=reference, criticism=criticism,
            epochs=config.optim.epochs, minibatches=config.optim.minibatches,
            demonstrations=corrected.get(policy),
        )  # fmt: skip
        own: dict[str, float] = credit.stats.get(policy, StepStats())
        credited = {k: v for k, v in own.items() if k != "reward"}  # logged by agent
        stats = {**chosen, **credited, **advantage_stats(advantages, credit.weights), **done, **mended.stats}
        values |= {f"{name}/{policy}": value for name, value in stats.items()}
    return values


def _credit(
    algorithm: Algorithm,
    learner: Learner | SharedLearner,
    samples: Sequence[Sample],
    reference: Sequence[Floats] | None,
) -> tuple[Credit, Criticism | None]:
    if not isinstance(algorithm, CriticAlgorithm):
        return algorithm.credit(samples, reference), None
    values = learner.values(samples)
    credit = algorithm.credit(samples, reference, values)
    if credit.returns is None:
        raise ConfigError(f"{type(algorithm).__name__} has a critic, so its credit() has to say the returns.")
    loss = ValueLoss(algorithm.vf_coef, algorithm.value_clip)
    return credit, Criticism(values, credit.returns, loss)
