"""``mappa-env play``: one episode in the terminal, action by action."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gymnasium.utils import seeding

from mappa_env.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.face import Face
from mappa_env.partners import Partners
from mappa_env.registration import card_of
from mappa_env.sandbox import DEFAULT

TEAMS = ("expert", "faulty", "human")


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "play", help="play one episode and show prompts, code, output, files and verdicts"
    )
    parser.add_argument("env", metavar="ID|FOLDER", help="for instance mappa/MathChat-v0, or a card folder")
    parser.add_argument("--team", choices=TEAMS, default="expert", help="who acts (default: %(default)s)")
    parser.add_argument("--seat", metavar="AGENT", help="act for this agent yourself; the team does the rest")
    parser.add_argument("--seed", type=int, default=0, help="chooses the task (default: %(default)s)")
    parser.add_argument("--task-id", help="play this task")
    parser.add_argument("--tasks", default="train", metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument("--coach", default="rubric", help="rubric or off (default: %(default)s)")
    parser.add_argument("--sandbox", default=DEFAULT, help="default: %(default)s")
    parser.add_argument("--prompts", default="full", help="full or compact (default: %(default)s)")
    parser.add_argument("--record", metavar="FILE", help="append the episode to this trace file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    face = Face(
        card_of(args.env), tasks=args.tasks, coach=args.coach, sandbox=args.sandbox, prompts=args.prompts,
        record=args.record, render_mode="human",
    )  # fmt: skip
    try:
        partners = None
        if args.team != "human":
            partners = Partners(face.card, args.team, seat=args.seat, prompts=args.prompts)
        face.reset(seeding.np_random(args.seed)[0], {"task_id": args.task_id})
        episode = face.episode
        if partners is not None:
            partners.reset(episode)
        while not episode.over:
            if partners is None or episode.agent == args.seat:
                face.act(ask(episode))
            else:
                face.act(partners.act(episode))
    finally:
        face.close()
    return 0


def ask(episode: Episode) -> str:
    """An action from the terminal, up to a line that is a single dot. Raises OptionError at end of input."""
    print(f"{episode.agent}, turn {episode.turn}: write the action and end it with a line that is '.'")
    lines: list[str] = []
    for line in sys.stdin:
        if line.rstrip("\n") == ".":
            return "".join(lines)
        lines.append(line)
    raise OptionError("the input ended before the episode did: end every action with a line that is '.'")
