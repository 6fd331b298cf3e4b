"""``mappa-env play``: one episode in the terminal, action by action."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gymnasium.utils import seeding
from rich.console import Console

from mappa_env.commands._shared import (
    COACH_HELP,
    at_least,
    command,
    sandbox_option,
    sigterm_ends,
    spec_option,
)
from mappa_env.envs.colours import Painter
from mappa_env.envs.partners import Partners
from mappa_env.envs.rendering import FULL_HELP, render_action, render_prompt
from mappa_env.envs.team_env import TeamEnv
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.registration import card_of

TEAMS = ("expert", "faulty", "human")


def add(commands: Any) -> None:
    """Add ``play`` to ``commands``."""
    parser = command(
        commands, "play", run, "play one episode and show prompts, code, output, files and verdicts"
    )
    parser.add_argument("env", metavar="ID|FOLDER", help="for instance mappa/MathChat-v0, or a card folder")
    parser.add_argument("--team", choices=TEAMS, default="expert", help="who acts (default: %(default)s)")
    parser.add_argument(
        "--agent", metavar="AGENT", help="act for this agent yourself; scripted partners act for the others"
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=0, metavar="N", help="chooses the task (default: %(default)s)"
    )
    parser.add_argument("--task-id", help="play this task")
    parser.add_argument("--tasks", default="train", metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument(
        "--coach", default="rubric", metavar="SPEC", help=f"off, {COACH_HELP} (default: rubric)"
    )
    parser.add_argument(
        "--shaping",
        default="process",
        metavar="SPEC",
        help="how scores become rewards (default: %(default)s)",
    )
    sandbox_option(parser)
    parser.add_argument(
        "--prompts",
        default="full",
        help="full, or another length that the card has: brief, compact (default: %(default)s)",
    )
    parser.add_argument("--full", action="store_true", help=FULL_HELP)
    parser.add_argument("--record", metavar="FILE", help="append the episode to this trace file")


def run(args: argparse.Namespace) -> int:
    """Play the episode to its end. Returns 0. Raises OptionError if the input ends early.

    SIGTERM ends it in good order, as Ctrl-C does: with its workspace removed and its recording written.
    """
    with sigterm_ends():
        return _play(args)


def _play(args: argparse.Namespace) -> int:
    team_env = TeamEnv(
        card_of(args.env),
        tasks=args.tasks,
        coach=spec_option("--coach", args.coach),
        shaping=spec_option("--shaping", args.shaping),
        sandbox=spec_option("--sandbox", args.sandbox),
        prompts=args.prompts,
        record=args.record,
    )
    painter = Painter(Console(highlight=False, soft_wrap=True))
    try:
        partners = None
        if args.team != "human":
            partners = Partners(team_env.card, args.team, agent=args.agent, prompts=args.prompts)
        team_env.reset(seeding.np_random(args.seed)[0], {"task_id": args.task_id})
        episode = team_env.episode
        if partners is not None:
            partners.reset(episode)
        painter.print(f"== {episode.card.id} · {episode.task.id}")
        while not episode.over:
            painter.print(render_prompt(episode, args.full))
            if partners is None or episode.agent == args.agent:
                record = team_env.act(ask(episode))
            else:
                record = team_env.act(partners.act(episode))
            painter.print(render_action(episode, record, args.full) + "\n")
    finally:
        team_env.close()
    return 0


def ask(episode: Episode) -> str:
    """Read an action from the terminal, up to the line ``.``. Raises OptionError at end of input."""
    print(f"{episode.agent}, turn {episode.turn}: write the action and end it with the line '.'")
    lines: list[str] = []
    for line in sys.stdin:
        if line.rstrip("\n") == ".":
            return "".join(lines)
        lines.append(line)
    raise OptionError("the input ended before the episode: end every action with the line '.'")
