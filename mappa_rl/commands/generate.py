"""``mappa-rl generate``: play and record episodes with fixed weights, without training."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.console import REFUSED, say, say_unread
from mappa_rl.commands.options import add_dry_run, add_model, add_overrides
from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG, new_folder, next_folder, own_folder_dropped, write_config
from mappa_rl.errors import RunError
from mappa_rl.rollout.records import write_step
from mappa_rl.telemetry.progress import Progress

HELP = "play and record episodes, without training"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "source", metavar="RECIPE|RUN", help="a recipe, or a run, whose newest checkpoint plays"
    )
    add_overrides(parser, "settings to change; set run.steps for the number of steps")
    add_model(parser)
    add_dry_run(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    source = Path(args.source) if (Path(args.source) / CONFIG).is_file() else None
    config = load_config(args.source if source is None else source / CONFIG, args.overrides)
    if source is None:
        out = new_folder(config, f"{Path(args.source).stem}-episodes")
    elif not (source / "checkpoints").is_dir():
        raise RunError(f"{source} has no checkpoint yet: resume it with `mappa-rl train --resume {source}`.")
    else:
        config = own_folder_dropped(config, source)
        out = new_folder(config, source.name) if config.run.out else next_folder(source / "generated")
    if args.dry_run:
        from mappa_rl.commands.dry_run import preview_play
        from mappa_rl.learner.checkpoint import Checkpoints

        keep = config.run.keep_checkpoints
        well = preview_play(
            config,
            out,
            console,
            "generate",
            source=None if source is None else Checkpoints(source / "checkpoints", keep).intact("latest"),
            overrides=args.overrides,
            verbose=args.verbose,
        )
        return 0 if well else REFUSED
    say_unread(config, args.overrides, console)
    say(console, str(generate(config, out, source)))
    return 0


def generate(config: Config, out: Path, run: Path | None = None) -> Path:
    """Play ``run.steps`` training steps' episodes into ``out/rollouts``, with metrics beside them.

    The weights are those that a run of this config starts with, or the newest checkpoint of the run in
    ``run``. Step 1 holds the episodes that training would learn from in its step 1. Raises RunError.
    """
    import torch

    from mappa_rl.coach.bias import CoachBias
    from mappa_rl.coach.files import with_coach_files
    from mappa_rl.coach.service import coach_served
    from mappa_rl.learner.checkpoint import Checkpoints
    from mappa_rl.rollout.batches import on_policy_batches
    from mappa_rl.rollout.metrics import check_masked, rollout_stats, service_stats
    from mappa_rl.telemetry.sinks import sinks_of
    from mappa_rl.training.build import build_policies, make_worker
    from mappa_rl.training.load_weights import load_trained
    from mappa_rl.training.preflight import require
    from mappa_rl.training.start import starting_model
    from mappa_rl.training.step import as_recorded, note_coach, note_masked

    require(config, out, "generate")
    config = with_coach_files(write_config(config, out), out)
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    with coach_served(config) as config, Progress(f"episodes of {config.env.id}") as progress:
        policies = build_policies(config, starting_model(config, out if run is None else run, progress))
        if run is not None:
            load_trained(
                policies, Checkpoints(run / "checkpoints", config.run.keep_checkpoints).intact("latest")
            )
        with (
            closing(policies),
            make_worker(config, policies, "train", progress.watch) as training,
            CoachBias(config, out, progress) as bias,
            sinks_of(config, out, progress.note) as metrics,
        ):
            batches = on_policy_batches(config, policies, training)
            progress.phase("generating", config.run.steps, "steps")
            for step in range(1, config.run.steps + 1):
                started = time.perf_counter()
                collected = batches.take(step)
                played = collected.played
                note_coach(played, step, progress)
                note_masked(played, step, progress)
                values = rollout_stats(played) | service_stats(played.trajectories)
                check_masked(played, config.rollout.max_masked_fraction, step)
                collected, found = bias.step(step, collected)
                values |= found
                write_step(out, as_recorded(config, policies, step, collected))
                values["time/step"] = time.perf_counter() - started
                metrics.log(step, values)
                progress.update(step, values)
    return out
