"""The loop: play episodes, turn rewards into advantages, step every policy, log, save."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import torch

from mappa_rl.algorithm import algorithm_of
from mappa_rl.assembly import Parts, assemble, collector
from mappa_rl.bias import CoachBias
from mappa_rl.checkpoint import Checkpoints
from mappa_rl.checks import check_coach
from mappa_rl.coach_files import with_coach_files
from mappa_rl.config import Config
from mappa_rl.corrections import correction_stats, corrections
from mappa_rl.filters import choose
from mappa_rl.held_out import HeldOut
from mappa_rl.launch import write_config
from mappa_rl.mismatch import correct
from mappa_rl.objective import objective_of
from mappa_rl.progress import Progress
from mappa_rl.rollout import Collected, Collector, Job, Sampling
from mappa_rl.sinks import Metrics
from mappa_rl.statistics import check_masked, rollout_stats
from mappa_rl.stopwatch import Stopwatch
from mappa_rl.summary import demonstrated_faults, summarise
from mappa_rl.types import StepStats
from mappa_rl.warmstart import warm_start


def train(config: Config, out: Path, resume: bool = False) -> Path:
    """Carry the run in ``out`` to its end and return ``out``. With ``resume`` it goes on from what is there.

    Whatever moment it was killed at, a resumed run has the parameters and metrics of an uninterrupted one.
    """
    algorithm_of(config)  # refuses what does not fit before anything long begins
    check_coach(config)
    write_config(config, out)
    config = with_coach_files(config, out)
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    with Progress(f"{config.env.id}, seed {config.run.seed}") as progress:
        parts = assemble(config, warm_start(config, out, progress))
        tokenizers = {name: policy.chat.tokenizer for name, policy in parts.policies.items()}
        checkpoints = Checkpoints(out / "checkpoints", keep=config.run.keep)
        watch = progress.watch
        with (
            collector(config, parts.policies, "train", watch) as training,
            collector(config, parts.policies, "train", watch, judged=False) as calibrating,
            collector(config, parts.policies, "eval", watch) as judged,
            collector(config, parts.policies, "eval", watch, judged=False) as plain,
        ):
            evaluation = HeldOut(config, out, progress, judged, plain)
            evaluation.calibrate(calibrating)
            evaluation.measure("before", evaluation.temperatures, trace=True)
            state = checkpoints.load(parts.learners) if resume and checkpoints.latest() else {}
            done = state.get("step", 0)
            parts.algorithm.load(state.get("algorithm", {}))
            with (
                CoachBias(config, out, progress, state.get("bias")) as bias,
                Metrics(out, resumed_at=done, tensorboard=config.run.tensorboard) as metrics,
            ):
                progress.phase("training", config.run.steps, "steps", done)
                for step in range(done + 1, config.run.steps + 1):
                    values = train_step(config, parts, training, step, watch, bias)
                    metrics.log(step, values)
                    progress.update(step, values)
                    every = config.run.checkpoint_every
                    if step == config.run.steps or (every and step % every == 0):
                        state = {"step": step, "bias": bias.state(), "algorithm": parts.algorithm.state()}
                        checkpoints.save(step, parts.learners, state, tokenizers=tokenizers)
                    if config.eval.every and step % config.eval.every == 0:
                        evaluation.measure(f"step-{step}", config.eval.temperatures)
                        progress.phase("training", config.run.steps, "steps", step)
            evaluation.measure("after", evaluation.temperatures, trace=True)
            script = plain.script if config.warmstart.team == "faulty" else None
    summarise(
        out, config, episodes=config.run.steps * config.rollout.episodes_per_step, phases=progress.seconds,
        watch=watch, best=evaluation.best, calibration=evaluation.calibration,
        faults=demonstrated_faults(script, evaluation.topics) if script else (),
    )  # fmt: skip
    return out


def train_step(
    config: Config, parts: Parts, training: Collector, step: int, watch: Stopwatch, bias: CoachBias
) -> dict[str, float]:
    """One step on fresh episodes; everything random in it follows from (run seed, step)."""
    started = time.perf_counter()
    rollout = config.rollout
    jobs = _jobs(config, training, step)
    sampling = Sampling(rollout.temperature, rollout.max_new_tokens, rollout.max_context)
    collected = training.collect(jobs, sampling)
    values = rollout_stats(collected) | correction_stats(collected)
    check_masked(collected, rollout.max_masked, step)
    values |= bias.step(step, collected)
    played = time.perf_counter()
    with watch.at("learner"):
        learnt = learn(config, parts, collected)
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


def _jobs(config: Config, training: Collector, step: int) -> list[Job]:
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
