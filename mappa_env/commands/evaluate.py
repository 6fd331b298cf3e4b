"""``mappa-env eval``: plays models, scripted teams and trivial baselines, and says how well they do."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from mappa_env.coach.llm.settings import MOST_TOKENS
from mappa_env.commands._shared import COACH_HELP, at_least, command, sandbox_option, seconds, spec_option
from mappa_env.errors import CoachStopped, EvaluationError, OptionError
from mappa_env.evaluation.episodes import Played
from mappa_env.evaluation.keys import refuse_keys
from mappa_env.evaluation.plan import Job, Plan, pending
from mappa_env.registration import card_of, find_card, id_of

if TYPE_CHECKING:
    from mappa_env.evaluation.contents import Contents

_DEFAULTS = Plan((), {})
PLAIN_INTERVAL_S = 5.0
"""Least seconds between two lines of progress."""
MODEL_HELP = (
    "a model's name, with --base-url; or openai:<model>@<url>; with options: '{name: ..., budget: 5}'; "
    "without a server: scripted:expert, scripted:faulty, constant:<text>, trivial:<rule>"
)


def add(commands: Any) -> None:
    """Add ``eval`` to ``commands``."""
    parser = command(commands, "eval", run, "play a model, or a team of models, on environments")
    parser.add_argument(
        "envs", nargs="+", metavar="ID|FOLDER", help="for instance mappa/AIME-v0 mappa/AMC-v0"
    )
    parser.add_argument("--model", metavar="SPEC", help=f"who plays every agent: {MODEL_HELP}")
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="AGENT=SPEC",
        help="who plays this agent instead; once for each of several agents",
    )
    parser.add_argument("--base-url", metavar="URL", help="of the server, like http://localhost:8000/v1")
    parser.add_argument("--tasks", default=_DEFAULTS.tasks, metavar="SPLIT|PATH", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=at_least(1), metavar="N", help="tasks of each environment; default: all"
    )
    parser.add_argument(
        "--samples",
        type=at_least(1),
        default=_DEFAULTS.samples,
        metavar="N",
        help="episodes of each task, for pass@k and majorities (default: %(default)s)",
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="default: the server's, which knows the model's own"
    )
    parser.add_argument(
        "--max-tokens", type=at_least(1, MOST_TOKENS), metavar="N", help="of an action (default: 4096)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="S",
        help="seconds for one call (default: a second for 10 of --max-tokens, at least 120)",
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=_DEFAULTS.seed, metavar="N", help="default: %(default)s"
    )
    parser.add_argument("--prompts", default="full", help="length of the prompts (default: %(default)s)")
    parser.add_argument(
        "--coach", default="off", metavar="SPEC", help=f"also score actions: {COACH_HELP} (default: off)"
    )
    sandbox_option(parser)
    parser.add_argument(
        "--concurrency", type=at_least(1), default=16, metavar="N", help="episodes at once (default: 16)"
    )
    parser.add_argument("--record", action="store_true", help="keep traces of all episodes")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: evaluations/<models>-<time>")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything but the servers, play nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Play what is not played yet. Returns 0.

    Raises EvaluationError if episodes could not be played, CoachStopped, OptionError: then the status is 2.
    """
    from mappa_env.envs.team_env import TeamEnv
    from mappa_env.evaluation.contents import Contents, check_contents
    from mappa_env.evaluation.extent import expect
    from mappa_env.evaluation.folder import RESULTS, check_free, finish, opened
    from mappa_env.evaluation.leaderboard import boards, models_of, show
    from mappa_env.evaluation.playing import Company
    from mappa_env.evaluation.sources import sources_of

    plan = Plan(
        envs=tuple(dict.fromkeys(id_of(env) for env in args.envs)),
        models=models(args),
        tasks=args.tasks,
        limit=args.limit,
        samples=args.samples,
        seed=args.seed,
        options={
            "coach": spec_option("--coach", args.coach),
            "sandbox": spec_option("--sandbox", args.sandbox),
            "prompts": args.prompts,
        },
    )
    coach = plan.options["coach"]
    refuse_keys(coach if isinstance(coach, Mapping) else {"name": coach}, "--coach")
    cards = [find_card(card_of(env)) for env in plan.envs]
    plan.check(cards)
    if args.samples > 1 and args.temperature == 0:
        raise OptionError(
            f"--samples {args.samples} at --temperature 0 plays the same episode again: raise one."
        )
    company = Company(plan)
    try:
        company.check(cards)
    finally:
        company.close()
    jobs, sets, sources = [], {}, {}
    for env in plan.envs:
        found = TeamEnv(card_of(env), tasks=plan.tasks, **dict(plan.options))
        jobs += plan.jobs(env, found.task_ids)
        sets[env], sources[env] = found.episode.tasks, sources_of(found.card, plan.options)
        found.close()
    console = Console(highlight=False, soft_wrap=True)
    out = (
        args.out
        or Path("evaluations") / f"{_file_name(models_of(plan.settings))}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    check_free(out)
    if args.dry_run:
        console.print(f"{len(jobs):,} episodes of {', '.join(plan.envs)} in {out}", markup=False)
        return 0
    with opened(out, plan) as played:
        expect(out, jobs, sources)
        check_contents(out, played, sets)
        _play(args, plan, jobs, played, Contents(played, sources), out, console)
        evaluation = finish(out, played)
    show(boards([evaluation]))
    for each in evaluation.figures:
        if each.flaws:
            counts = ", ".join(f"{count:,} {flaw}" for flaw, count in sorted(each.flaws.items()))
            console.print(f"{each.env}: actions with a flaw: {counts}", markup=False)
    console.print(f"figures: {out / RESULTS}\n{out}", markup=False)
    return 0


def _play(
    args: argparse.Namespace,
    plan: Plan,
    jobs: list[Job],
    played: list[Played],
    contents: Contents,
    out: Path,
    console: Console,
) -> None:
    """Play the ``jobs`` that are not ``played``, and add them. ``out`` is held by this process.

    Raises EvaluationError if episodes could not be played, CoachStopped; all episodes that are over are kept.
    """
    from mappa_env.evaluation.abandoned import append_abandoned
    from mappa_env.evaluation.episodes import append
    from mappa_env.evaluation.ledgers import with_ledger
    from mappa_env.evaluation.playing import Company, SandboxAway, play_all

    plan = dataclasses.replace(plan, options=with_ledger(plan.options, out))
    todo = list(pending(jobs, [each.job for each in played]))
    line = Line(console, len(jobs), len(played))
    traces = out / "traces" if args.record else None
    if traces is not None:
        traces.mkdir(exist_ok=True)

    def done(each: Played) -> None:
        append(out, each)
        played.append(each)
        line.show(len(played), sum(each.success for each in played))

    company = Company(plan, out)
    try:
        company.recall(played)
        failed = play_all(
            plan,
            todo,
            company,
            contents,
            done,
            lambda each: append_abandoned(out, each),
            threads=args.concurrency,
            record=traces,
        )
    except (CoachStopped, SandboxAway) as stopped:
        kept = f"{len(played)} of {len(jobs)} episodes are kept: to go on, run the command with --out {out}."
        raise type(stopped)(f"{stopped} {kept}") from None
    finally:
        company.close()
    if failed:
        raise EvaluationError(
            f"{len(failed)} of {len(jobs)} episodes could not be played, the first: {failed[0]}. The others "
            f"are kept: run the same command with --out {out} again."
        )


def models(args: argparse.Namespace) -> dict[str, Mapping[str, Any]]:
    """Agent, or ``*``, -> the specification of its model. Raises OptionError."""
    from mappa_env.evaluation.participants import SERVED, kind_of

    found: dict[str, Mapping[str, Any]] = {}
    asked = [("*", "--model", args.model)] if args.model else []
    for text in args.agent:
        agent, equals, spec = text.partition("=")
        if not equals or not spec:
            raise OptionError(f"--agent {text!r} must look like solver_0=<model>.")
        if agent.strip() in (name for name, _, _ in asked):
            raise OptionError(f"--agent {agent.strip()} is set twice: keep one.")
        asked.append((agent.strip(), f"--agent {agent.strip()}", spec))
    if not asked:
        raise OptionError("who plays? Set --model, or --agent for each agent.")
    more = {"temperature": args.temperature, "max_output_tokens": args.max_tokens, "timeout_s": args.timeout}
    for agent, option, text in asked:
        spec = spec_option(option, text)
        spec = {"name": spec} if isinstance(spec, str) else dict(spec)
        refuse_keys(spec | {"base_url": args.base_url}, option)
        kind = kind_of(str(spec["name"]))
        if not kind:
            if not args.base_url:
                raise OptionError(
                    f"{option} {text!r} needs --base-url, or the form openai:<model>@<url>; without a server "
                    "there are scripted:expert, constant:<text> and trivial:<rule>."
                )
            spec["name"] = f"{SERVED}:{spec['name']}@{args.base_url}"
        if kind in ("", SERVED):
            spec = {name: value for name, value in more.items() if value is not None} | spec
        found[agent] = spec
    served = any(kind_of(str(spec["name"])) == SERVED for spec in found.values())
    for option, value in _server_options(args):
        if value is not None and not served:
            raise OptionError(
                f"{option} {value} is for a model behind a server, and none plays: leave it out."
            )
    return found


@dataclasses.dataclass(slots=True)
class Line:
    """Progress: a line now and then, and one at the end."""

    console: Console
    total: int
    before: int
    began: float = dataclasses.field(default_factory=time.monotonic)
    shown: float = 0.0

    def show(self, done: int, won: int) -> None:
        """``done`` of all episodes are over, ``won`` of them succeeded."""
        now = time.monotonic()
        if now - self.shown < PLAIN_INTERVAL_S and done < self.total:
            return
        self.shown = now
        pace = (done - self.before) / max(now - self.began, 1e-9)
        left = f" · {(self.total - done) / pace / 60:.0f} min left" if done < self.total and pace else ""
        self.console.print(f"  {done:,}/{self.total:,} episodes · success {won / done:.1%}{left}")


def _server_options(args: argparse.Namespace) -> list[tuple[str, Any]]:
    names = ("base_url", "temperature", "max_tokens", "timeout")
    return [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in names]


def _file_name(models: Sequence[str] | str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in models)[:60]
