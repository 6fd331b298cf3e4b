"""A run from its start to its summary: warm start, evaluate, train, evaluate again."""

from __future__ import annotations

from contextlib import ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mappa_rl.cluster.session import is_led, joined
from mappa_rl.coach.bias import CoachBias
from mappa_rl.coach.bias_state import BiasState
from mappa_rl.coach.files import with_coach_files
from mappa_rl.coach.service import coach_served
from mappa_rl.config import Config
from mappa_rl.config.environment import env_card
from mappa_rl.evaluation.faults import demonstrated_faults
from mappa_rl.evaluation.held_out import HeldOut
from mappa_rl.evaluation.summarise import summarise
from mappa_rl.learner.checkpoint import Checkpoints
from mappa_rl.memory import give_back
from mappa_rl.rollout.batches import batches_of
from mappa_rl.stopping import Stopping
from mappa_rl.telemetry.progress import Progress
from mappa_rl.telemetry.sinks import sinks_of
from mappa_rl.telemetry.times import KeptTimes
from mappa_rl.training.build import assemble, make_worker, workers_elsewhere
from mappa_rl.training.folder import adopt
from mappa_rl.training.lock import locked
from mappa_rl.training.loop import Loop
from mappa_rl.training.preflight import require
from mappa_rl.training.room import check_room, record
from mappa_rl.training.saver import Saver
from mappa_rl.training.start import starting_model
from mappa_rl.training.traces import StepTraces


def train(
    config: Config,
    out: Path,
    resume: bool = False,
    checked: bool = False,
    stopping: Stopping | None = None,
) -> Path:
    """Run, or ``resume``, the training in ``out``; returns ``out``. ``checked``: the preflight has passed.

    A resumed run has the parameters and metrics of an uninterrupted one, whenever it was killed. With
    asynchronous rollouts it learns from every job once, but in a different order. SIGINT and SIGTERM end it
    with a checkpoint; KeyboardInterrupt, or Terminated, is raised then. ``stopping``: the caller's, which it
    has entered.
    """
    if not checked:
        require(config, out)
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    title = f"{config.env.id}, seed {config.run.seed}"
    caller = nullcontext(stopping) if stopping else Stopping()
    on_cluster = joined(config.cluster, out, partial(record, config))
    with locked(out), caller as stopping, on_cluster, ExitStack() as held:
        if config.cluster.name == "ray" and not is_led():
            check_room(config)
        with Progress(title) as progress:
            times = KeptTimes(out, progress)
            held.callback(times.keep)
            config = held.enter_context(coach_served(with_coach_files(adopt(config, out), out)))
            folder = starting_model(config, out, progress)
            give_back()  # what it trained with: policies and engines now take theirs
            parts = assemble(config, folder)
            checkpoints = Checkpoints(
                out / "checkpoints", config.run.keep_checkpoints, config.run.checkpoints_mb
            )
            checkpoints.recover()
            watch = progress.watch
            with (
                parts,
                closing(parts.policies),
                make_worker(config, parts.policies, "train", watch) as training,
                make_worker(config, parts.policies, "train", watch, judged=False) as calibrating,
                make_worker(config, parts.policies, "eval", watch) as judged,
                make_worker(config, parts.policies, "eval", watch, judged=False) as plain,
                workers_elsewhere(config, parts.policies, watch) as also,
            ):
                evaluation = HeldOut(config, out, progress, judged, plain, also)
                evaluation.calibrate(calibrating)
                evaluation.measure("before", evaluation.temperatures, trace=True)
                state = checkpoints.load(parts.learners) if resume and checkpoints.latest() else {}
                done = state.get("step", 0)
                parts.algorithm.load(state.get("algorithm", {}))
                batches = batches_of(config, parts.policies, training, state.get("rollouts", {}), done)
                bias_state = BiasState.from_dict(state["bias"]) if state.get("bias") else None
                unlogged = state.get("unlogged") is not None
                with (
                    CoachBias(config, out, progress, bias_state) as bias,
                    sinks_of(config, out, progress.note, resumed_at=done - unlogged) as sinks,
                    StepTraces(
                        out, env_card(config.env.id), config.run.trace_every, resumed_at=done
                    ) as traces,
                ):

                    def rest() -> dict[str, Any]:
                        return {
                            "bias": bias.state().to_dict(),
                            "algorithm": parts.algorithm.state(),
                            "rollouts": batches.state(),
                        }

                    loop = Loop(
                        config,
                        out,
                        parts,
                        batches,
                        bias,
                        evaluation,
                        calibrating,
                        sinks,
                        progress,
                        Saver(checkpoints, parts, rest, times.keep),
                        stopping,
                        traces,
                    )
                    loop.run(state)
                evaluation.measure("after", evaluation.temperatures, trace=True)
                start = config.warmstart
                demonstrated = start.steps or start.path
                script = plain.script if demonstrated and start.team == "faulty" else None
        summarise(
            out,
            config,
            episodes=config.run.steps * config.rollout.episodes_per_step,
            progress=progress,
            times=times.total(),
            calibration=evaluation.calibration,
            faults=demonstrated_faults(script, evaluation.topics) if script else (),
        )
    return out
