"""One training step: play episodes, turn rewards into advantages, step every policy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from mappa_rl.algos import Algorithm, Credit, CriticAlgorithm
from mappa_rl.assembly import Parts
from mappa_rl.batches import Batches
from mappa_rl.bias import CoachBias
from mappa_rl.config import Config
from mappa_rl.corrections import correction_stats, corrections
from mappa_rl.critic import Criticism, ValueLoss
from mappa_rl.errors import ConfigError
from mappa_rl.filters import choose
from mappa_rl.learner import Learner
from mappa_rl.mismatch import correct
from mappa_rl.objective import objective_of
from mappa_rl.parallel import SharedLearner
from mappa_rl.progress import Progress
from mappa_rl.rollout import Collected
from mappa_rl.statistics import check_masked, rollout_stats
from mappa_rl.types import Floats, Sample, StepStats


def train_step(
    config: Config, parts: Parts, batches: Batches, step: int, progress: Progress, bias: CoachBias
) -> dict[str, float]:
    """One step; on policy everything random in it follows from (run seed, step)."""
    started = time.perf_counter()
    collected = batches.take(step)
    masked = Counter(reason[:200] for reason in collected.reasons if reason)
    for reason, count in masked.most_common(3):
        progress.note(f"step {step}: masked {count} of {len(collected.rollouts)} episodes: {reason}")
    values = rollout_stats(collected) | correction_stats(collected)
    check_masked(collected, config.rollout.max_masked, step)
    values |= bias.step(step, collected)
    played = time.perf_counter()
    with progress.watch.at("learner"):
        learnt = learn(config, parts, collected)
    values |= {f"{name}/{policy}": value for policy, stats in learnt.items() for name, value in stats.items()}
    learned = time.perf_counter()
    batches.update(step)
    ended = time.perf_counter()
    values |= {"time/learn": learned - played, "time/sync": ended - learned, "time/step": ended - started}
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
        reference = parts.references[policy].logprobs(samples) if wanted else None
        mended = correct(samples, learner, algo)
        credit, criticism = _credit(parts.algorithm, learner, mended.samples, reference)
        done = learner.step(
            mended.samples, mended.weigh(credit.advantages), credit.weights,
            objective=objective, reference=reference, criticism=criticism,
            epochs=config.optim.epochs, minibatches=config.optim.minibatches,
            demonstrations=corrected.get(policy),
        )  # fmt: skip
        own: dict[str, float] = credit.stats.get(policy, StepStats())
        credited = {k: v for k, v in own.items() if k != "reward"}  # logged by agent
        stats[policy] = {**chosen, **credited, **done, **mended.stats}
    return stats


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
