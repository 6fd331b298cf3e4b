"""The loop of a run: evaluate, train step by step, log, save, evaluate again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import torch

from mappa_env.types import Trajectory
from mappa_rl.assembly import assemble, collector
from mappa_rl.batches import batches_of
from mappa_rl.bias import CoachBias
from mappa_rl.checkpoint import Checkpoints
from mappa_rl.checks import check_run
from mappa_rl.coach_files import with_coach_files
from mappa_rl.config import Config
from mappa_rl.held_out import HeldOut
from mappa_rl.launch import write_config
from mappa_rl.progress import Progress
from mappa_rl.records import Recorded, write_step
from mappa_rl.sinks import sinks_of
from mappa_rl.step import train_step
from mappa_rl.summary import demonstrated_faults, summarise
from mappa_rl.warmstart import warm_start


def train(config: Config, out: Path, resume: bool = False) -> Path:
    """Carry the run in ``out`` to its end and return ``out``. With ``resume`` it goes on from what is there.

    Whatever moment it was killed at, a resumed run has the parameters and metrics of an uninterrupted one,
    unless its episodes are streamed: then it learns from each once, but in another order.
    """
    check_run(config)
    config = with_coach_files(write_config(config, out), out)
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    with Progress(f"{config.env.id}, seed {config.run.seed}") as progress:
        parts = assemble(config, warm_start(config, out, progress))
        tokenizers = {name: policy.chat.tokenizer for name, policy in parts.policies.items()}
        checkpoints = Checkpoints(out / "checkpoints", keep=config.run.keep)
        watch = progress.watch
        with (
            parts.processes,
            closing(parts.policies),
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
            batches = batches_of(config, parts.policies, training, state.get("rollouts", {}), done)
            with (
                CoachBias(config, out, progress, state.get("bias")) as bias,
                sinks_of(config, out, progress.note, resumed_at=done) as metrics,
            ):

                def record(recorded: Recorded, trajectories: Sequence[Trajectory]) -> None:
                    if config.run.record_rollouts:
                        write_step(out, recorded)
                    metrics.episodes(recorded.step, trajectories)

                progress.phase("training", config.run.steps, "steps", done)
                for step in range(done + 1, config.run.steps + 1):
                    values = train_step(config, parts, batches, step, progress, bias, record)
                    every = config.run.checkpoint_every
                    saved = step == config.run.steps or bool(every and step % every == 0)
                    score = evaluation.validate(calibrating) if saved else None
                    values |= {} if score is None else {"validation": score}
                    metrics.log(step, values)
                    progress.update(step, values)
                    if saved:
                        state = {
                            "step": step, "bias": bias.state(), "algorithm": parts.algorithm.state(),
                            "rollouts": batches.state(),
                        }  # fmt: skip
                        checkpoints.save(step, parts.learners, state, tokenizers=tokenizers, score=score)
                    if config.eval.every and step % config.eval.every == 0:
                        evaluation.measure(f"step-{step}", config.eval.temperatures)
                        progress.phase("training", config.run.steps, "steps", step)
            evaluation.measure("after", evaluation.temperatures, trace=True)
            start = config.warmstart
            demonstrated = start.steps or start.path
            script = plain.script if demonstrated and start.team == "faulty" else None
    summarise(
        out, config, episodes=config.run.steps * config.rollout.episodes_per_step, phases=progress.seconds,
        watch=watch, best=evaluation.best, calibration=evaluation.calibration,
        faults=demonstrated_faults(script, evaluation.topics) if script else (),
    )  # fmt: skip
    return out
