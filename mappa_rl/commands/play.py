"""``mappa-rl play``: a trained team solves your own problem in the terminal."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from rich.console import Console

from mappa_env.envs.colours import Painter
from mappa_env.envs.rendering import FULL_HELP, render_deed
from mappa_env.types import Trajectory
from mappa_rl.commands.checkpoint import checkpoint_of
from mappa_rl.commands.console import one_run
from mappa_rl.commands.options import add_checkpoint
from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.errors import ConfigError, RunError

HELP = "let a trained team solve your own problem"
TEXT_GRADERS = ("math",)
"""Graders of tasks that are a text and nothing else, so that a problem from the terminal is one."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a run")
    parser.add_argument("problem", help="the problem as text, or - to read it from standard input")
    add_checkpoint(parser)
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="default: the first of eval.temperatures; 0: greedy"
    )
    parser.add_argument("--full", action="store_true", help=FULL_HELP)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    if args.temperature is not None and not args.temperature >= 0:
        raise ConfigError(f"--temperature {args.temperature:g} must be 0 (greedy) or more.")
    problem = (sys.stdin.read() if args.problem == "-" else args.problem).strip()
    if not problem:
        raise ConfigError("the problem is empty: write it as the second argument, in quotes.")
    folder = one_run(args.folder, "play")
    played = play(folder, problem, args.seed, checkpoint=args.checkpoint, temperature=args.temperature)
    titles = {agent.name: agent.title for agent in env_card(played.env_id).team.agents}
    painter = Painter(console)
    for action in played.actions:
        painter.print(f"== {titles[action.agent]}\n{render_deed(action, args.full)}\n")
    return 0


def play(
    run: Path, problem: str, seed: int, *, checkpoint: str = "latest", temperature: float | None = None
) -> Trajectory:
    """One episode of the run's team on ``problem``, without a coach. Its outcome means nothing.

    ``temperature``: None takes the first of ``eval.temperatures``.

    Raises ConfigError for an environment whose tasks need files, RunError or CheckpointError if the run has
    no such checkpoint.
    """
    config = load_config(run / CONFIG, ["env.coach=off", "env.coach_feedback=off", "env.shaping=process"])
    card = env_card(config.env.id)
    if card.grader not in TEXT_GRADERS:
        raise ConfigError(
            f"{run} was trained on {card.id}, whose tasks are more than text. To see its episodes, use "
            f"`mappa-rl generate {run}`."
        )
    path = checkpoint_of(config, run, checkpoint)
    from mappa_rl.rollout.sampling import evaluation_sampling
    from mappa_rl.rollout.types import Job
    from mappa_rl.training.build import build_policies, make_worker
    from mappa_rl.training.load_weights import load_trained
    from mappa_rl.warmstart.warmstart import start_folder

    with tempfile.TemporaryDirectory(prefix="mappa-play-") as scratch:
        row = {"id": "yours", "prompt": problem, "answer": "0"}  # nobody asks whether it is right
        tasks = Path(scratch) / "tasks.jsonl"
        tasks.write_text(json.dumps(row) + "\n", encoding="utf-8")
        config = config.model_copy(update={"env": config.env.model_copy(update={"tasks_eval": str(tasks)})})
        policies = build_policies(config, start_folder(config, run))
        with closing(policies), make_worker(config, policies, "eval", judged=False) as worker:
            load_trained(policies, path)
            sampling = evaluation_sampling(
                config, config.eval.temperatures[0] if temperature is None else temperature
            )
            done = worker.collect([Job(seed)], sampling)
    if done.reasons and done.reasons[0]:
        raise RunError(f"the episode could not be played: {done.reasons[0]}")
    return done.trajectories[0]
