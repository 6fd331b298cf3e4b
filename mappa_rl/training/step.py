"""One training step: run episodes, turn rewards into advantages, update every policy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mappa_env.types import Trajectory
from mappa_rl.algos import Advantages, Algorithm, CriticAlgorithm
from mappa_rl.algos.aggregation import shares_of
from mappa_rl.algos.filters import choose
from mappa_rl.algos.importance import ImportanceWeighted, apply_importance_weights, in_the_update
from mappa_rl.coach.bias import CoachBias
from mappa_rl.coach.corrections import corrected_action_stats, corrected_turns, demonstrations
from mappa_rl.config import Config
from mappa_rl.crews.side_by_side import side_by_side
from mappa_rl.errors import ConfigError
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.critic import ValueLoss, ValueTargets
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.samples import training_samples
from mappa_rl.rollout.batches import Batches
from mappa_rl.rollout.metrics import (
    check_masked,
    coach_troubles,
    passed_turns,
    rollout_stats,
    service_stats,
)
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.records import Recorded
from mappa_rl.rollout.types import Collected
from mappa_rl.telemetry.progress import Progress
from mappa_rl.training.build import Parts
from mappa_rl.types import Floats, Sample

Weighed = Callable[[Sequence[Sample], Advantages, Sequence[Floats]], None]


class Listeners(NamedTuple):
    """Who hears of a step. ``record`` receives its episodes before they are learned from.

    ``weighed`` receives, for every policy, its samples, what the algorithm found, and the advantages that the
    loss weighs.
    """

    record: Callable[[Recorded, Sequence[Trajectory]], None]
    weighed: Weighed | None = None


def train_step(
    config: Config,
    parts: Parts,
    batches: Batches,
    step: int,
    progress: Progress,
    bias: CoachBias,
    listeners: Listeners,
) -> dict[str, float]:
    """One training step; on policy everything random in it follows from (run seed, step).

    Returns metrics. Raises RunError if more actions than ``rollout.max_masked_fraction`` have no valid
    reward.
    """
    started = time.perf_counter()
    collected = batches.take(step)
    played = collected.played
    note_masked(played, step, progress)
    note_coach(played, step, progress)
    values = rollout_stats(played) | service_stats(played.trajectories) | corrected_action_stats(collected)
    check_masked(played, config.rollout.max_masked_fraction, step)
    collected, bias_stats = bias.step(step, collected)
    recorded = as_recorded(config, parts.policies, step, collected)
    listeners.record(recorded, collected.trajectories)
    rolled_out = time.perf_counter()
    with progress.watch.at("learner"):
        if config.engine.sleep:
            parts.policies.sleep()
        learner_stats = learn(config, parts, recorded, listeners.weighed)
        if config.engine.sleep:
            parts.policies.wake()
    learned = time.perf_counter()
    sync_stats = batches.update(step)
    ended = time.perf_counter()
    return {
        **values,
        **bias_stats,
        **learner_stats,
        **sync_stats,
        "time/learn": learned - rolled_out,
        "time/sync": ended - learned,
        "time/step": ended - started,
        "tokens_per_s": collected.tokens / (ended - started),
    }


def as_recorded(config: Config, policies: Policies, step: int, collected: Collected) -> Recorded:
    """Everything that a step learns from."""
    corrected = corrected_turns(collected, policies) if config.sft.corrections_coef else []
    return Recorded(step, collected.rollouts, corrected, collected.tokens)


def learn(
    config: Config, parts: Parts, recorded: Recorded, weighed: Weighed | None = None
) -> dict[str, float]:
    """Update every trainable policy on its own samples; advantages are normalised within the policy.

    ``weighed``: see ``Listeners``. Returns metrics named ``<stat>/<policy>``. Raises ConfigError for an
    algorithm that breaks its contract.
    """
    algo, weighs = config.algo, in_the_update(config)
    objective = Objective(algo, weighs)
    corrected_actions = demonstrations(recorded.corrected, config.sft.corrections_coef)
    gathered = training_samples(parts.policies.map, recorded.rollouts)
    chosen = {policy: choose(samples, algo, config.rollout) for policy, samples in gathered.items()}
    learners = {policy: parts.learners[policy] for policy in chosen}
    crew_of = {policy: parts.policies.crews[policy] for policy in chosen}

    def score(policy: str) -> _Scored:
        samples, _ = chosen[policy]
        reference = parts.references[policy].logprobs(samples) if parts.references else None
        weighted = apply_importance_weights(samples, None if weighs else learners[policy], algo)
        critic = isinstance(parts.algorithm, CriticAlgorithm)
        return _Scored(reference, weighted, learners[policy].values(weighted.samples) if critic else None)

    scored = side_by_side(crew_of, score)
    batches: dict[str, Batch] = {}
    values: dict[str, dict[str, float]] = {}
    for policy, (samples, filter_stats) in chosen.items():
        reference, weighted, _ = scored[policy]
        found, value_targets = _advantages(parts.algorithm, scored[policy])
        advantages = weighted.weigh(found.advantages)
        if weighed is not None:
            weighed(samples, found, advantages)
        shares = shares_of(algo.aggregation, samples, found.weights, config.rollout.max_new_tokens)
        batches[policy] = Batch(weighted.samples, advantages, found.weights, reference, value_targets, shares)
        values[policy] = {
            **filter_stats,
            **{name: value for name, value in found.stats.items() if name != "reward"},
            **advantage_stats(advantages, found.weights),
        }
    steps = side_by_side(
        crew_of,
        lambda policy: learners[policy].step(batches[policy], objective, corrected_actions.get(policy)),
    )
    return {
        f"{name}/{policy}": value
        for policy in learners
        for name, value in (values[policy] | steps[policy] | scored[policy].weighted.stats).items()
    }


def note_coach(collected: Collected, step: int, progress: Progress) -> None:
    """Report how many calls to the coach were retried or failed."""
    if line := coach_troubles(collected.trajectories):
        progress.note(f"step {step}: {line}")


def note_masked(collected: Collected, step: int, progress: Progress) -> None:
    """Report the three most frequent reasons why episodes are masked, and prompts without room."""
    masked = Counter(reason[:200] for reason in collected.reasons if reason)
    for reason, count in masked.most_common(3):
        progress.note(f"step {step}: masked {count} of {len(collected.rollouts)} episodes: {reason}")
    if line := passed_turns(collected.rollouts):
        progress.note(f"step {step}: {line}")


class _Scored(NamedTuple):
    """What a policy's models say of its samples before the update; ``values``: the critic's."""

    reference: list[Floats] | None
    weighted: ImportanceWeighted
    values: list[Floats] | None


def _advantages(algorithm: Algorithm, scored: _Scored) -> tuple[Advantages, ValueTargets | None]:
    """The algorithm's advantages, and for a critic what its values should become."""
    reference, samples, values = scored.reference, scored.weighted.samples, scored.values
    if values is None or not isinstance(algorithm, CriticAlgorithm):
        return algorithm.token_advantages(samples, reference), None
    found = algorithm.token_advantages(samples, reference, values)
    if found.returns is None:
        raise ConfigError(
            f"{type(algorithm).__name__} has a critic, so its token_advantages() must set returns."
        )
    return found, ValueTargets(values, found.returns, ValueLoss(algorithm.vf_coef, algorithm.value_clip))


def advantage_stats(advantages: Sequence[Floats], weights: Sequence[Floats]) -> dict[str, float]:
    """``advantage_mean``, ``advantage_std`` and ``advantage_abs`` over tokens with a nonzero weight."""
    values = np.concatenate([a[w != 0] for a, w in zip(advantages, weights, strict=True)] or [np.zeros(0)])
    if not len(values):
        return {}
    found = {"mean": values.mean(), "std": values.std(), "abs": np.abs(values).mean()}
    return {f"advantage_{name}": float(value) for name, value in found.items()}
