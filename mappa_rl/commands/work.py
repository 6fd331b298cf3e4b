"""The work of a run, phase by phase, from its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mappa_rl.config import Config
from mappa_rl.rollout.sampling import evaluation_sampling, training_sampling


@dataclass(frozen=True, slots=True)
class Work:
    """One phase of a run: ``tokens``: the most that it can generate; None if it generates nothing."""

    phase: str
    episodes: int
    steps: int
    tokens: int | None


def _warm_start(config: Config, evaluated: int) -> Work:
    """Imitation, with the episodes that measure whether it is enough."""
    start = config.warmstart
    if not start.until:
        return Work("warm start", 0, start.steps, None)
    episodes = start.steps // start.check_every * start.check_episodes
    return Work("warm start", episodes, start.steps, episodes * evaluated)


def evaluation_work(config: Config, turns: int) -> list[Work]:
    """The phases of ``mappa-rl eval``, at most: it takes over stored results of the same episodes."""
    kept = ("calibration", "evaluation before", "evaluation after")
    return [phase for phase in work(config, turns) if phase.phase in kept]


def generation_work(config: Config, turns: int, warm_starts: bool) -> list[Work]:
    """The phases of ``mappa-rl generate``; ``warm_starts``: it begins as a run of this config does."""
    kept = (*(("demonstrations", "warm start") if warm_starts else ()), "training")
    phases = [phase for phase in work(config, turns) if phase.phase in kept]
    return [*phases[:-1], replace(phases[-1], phase="generating")]


def work(config: Config, turns: int) -> list[Work]:
    """The phases of a run of one seed; ``turns`` is the most actions that an episode can take."""
    longest = (training_sampling(config).longest, evaluation_sampling(config, 1.0).longest)
    action, evaluated = (turns * tokens for tokens in longest)
    phases = []
    if config.warmstart.steps and not config.warmstart.path:
        phases.append(Work("demonstrations", config.warmstart.episodes, 0, None))
        phases.append(_warm_start(config, evaluated))
    if config.eval.calibration_temperatures:
        tried = {*config.eval.calibration_temperatures, *config.eval.temperatures}
        episodes = config.eval.calibration_episodes * len(tried)
        phases.append(Work("calibration", episodes, 0, episodes * evaluated))
    best = bool(config.eval.calibration_temperatures)
    once = config.eval.episodes + sum(config.eval.also.values())
    held_out = once * (len(config.eval.temperatures) + best)
    phases.append(Work("evaluation before", held_out, 0, held_out * evaluated))
    episodes = config.run.steps * config.rollout.episodes_per_step
    most = episodes * (1 + config.rollout.refill_rounds)
    phases.append(Work("training", episodes, config.run.steps, most * action))
    if config.eval.validation_tasks:
        every = config.run.checkpoint_every or config.run.steps or 1
        episodes = config.eval.validation_tasks * -(-config.run.steps // every)
        phases.append(Work("validation", episodes, 0, episodes * evaluated))
    if config.eval.every:
        times = max(config.run.steps - 1, 0) // config.eval.every
        between = times * once * len(config.eval.temperatures)
        phases.append(Work("evaluation during training", between, 0, between * evaluated))
    phases.append(Work("evaluation after", held_out, 0, held_out * evaluated))
    return phases
