"""``mappa-rl replay``: train on recorded episodes, without an environment, sandbox or coach."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.console import one_run, say, say_unread
from mappa_rl.commands.options import add_overrides
from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG, new_folder, next_folder, own_folder_dropped, write_config
from mappa_rl.errors import ConfigError, RunError
from mappa_rl.rollout.records import read_step, recorded_steps
from mappa_rl.telemetry.progress import Progress

HELP = "train on recorded episodes, without an environment"
ALLOWED = ("algo.", "optim.", "sft.", "placement.", "run.")
"""Sections that a replay may change: those that do not affect the recorded episodes."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "folder", type=Path, metavar="RUN", help="a run made with run.record_rollouts, or by generate"
    )
    add_overrides(
        parser, "algo.*, optim.*, sft.*, placement.* and run.* settings to change, for example algo.name=grpo"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    folder = one_run(args.folder, "replay")
    wrong = [text for text in args.overrides if not text.startswith((*ALLOWED, "out="))]
    if wrong:
        raise ConfigError(
            f"replay can change only {'*, '.join(ALLOWED)}* settings, not {', '.join(wrong)}: the episodes "
            "are already recorded."
        )
    config = own_folder_dropped(load_config(folder / CONFIG, args.overrides), folder)
    if config.sft.corrections_coef and not load_config(folder / CONFIG).sft.corrections_coef:
        raise ConfigError(
            f"sft.corrections_coef={config.sft.corrections_coef:g} has nothing to teach in a replay of "
            f"{folder}: that run had sft.corrections_coef=0, and recorded no corrections."
        )
    config = config.with_overrides(["run.record_rollouts=false"])
    say_unread(config, args.overrides, console)
    out = new_folder(config, folder.name) if config.run.out else next_folder(folder / "replay")
    say(console, str(replay(config, folder, out)))
    return 0


def replay(config: Config, source: Path, out: Path) -> Path:
    """Train on the steps that ``source`` recorded, from its initial weights; write metrics and checkpoints to
    ``out``.

    With the settings of the run that recorded them, weights and the learner's metrics are that run's, bit for
    bit. Steps beyond ``run.steps`` are ignored. Raises RunError where start or rollouts are missing,
    ConfigError that lists the problems of the settings.
    """
    import torch

    from mappa_rl.learner.checkpoint import Checkpoints
    from mappa_rl.rollout.metrics import rollout_stats
    from mappa_rl.rollout.types import Collected
    from mappa_rl.telemetry.sinks import sinks_of
    from mappa_rl.training.build import assemble
    from mappa_rl.training.preflight import require
    from mappa_rl.training.step import learn

    paths = recorded_steps(source)[: config.run.steps]
    start = start_of(config, source)
    require(config, out, "replay")
    begun = config.warmstart.model_copy(update={"path": str(start.resolve())})
    config = write_config(config.model_copy(update={"warmstart": begun}), out)
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    with (
        Progress(f"replay of {source}") as progress,
        assemble(config, start, plays=False) as parts,
    ):
        tokenizers = {name: policy.chat.tokenizer for name, policy in parts.policies.items()}
        run = config.run
        checkpoints = Checkpoints(out / "checkpoints", run.keep_checkpoints, run.checkpoints_mb)
        progress.phase("replay", len(paths), "steps")
        with sinks_of(config, out, progress.note) as metrics:
            for path in paths:
                started = time.perf_counter()
                recorded = read_step(path)
                step = recorded.step
                collected = Collected(recorded.rollouts, [], recorded.tokens)
                values = rollout_stats(collected)
                with progress.watch.at("learner"):
                    values |= learn(config, parts, recorded)
                values["time/step"] = time.perf_counter() - started
                metrics.log(step, values)
                progress.update(step, values)
                every = config.run.checkpoint_every
                if path is paths[-1] or (every and step % every == 0):
                    state = {"step": step, "bias": None, "algorithm": parts.algorithm.state()}
                    checkpoints.save(step, parts.learners, state, tokenizers=tokenizers)
    return out


def start_of(config: Config, source: Path) -> Path:
    """The folder with the weights that ``source`` began with. Raises RunError, ConfigError."""
    from mappa_rl.models.pretrained import model_folder
    from mappa_rl.warmstart.warmstart import FOLDER

    if config.warmstart.path:
        start = Path(config.warmstart.path)
    elif config.model.kind != "tiny" and not config.warmstart.steps:
        return model_folder(config.model.kind)
    else:
        start = source / FOLDER
    if not (start / "config.json").is_file():
        raise RunError(f"{start} holds no model: a replay needs the weights that its run began with.")
    return start
