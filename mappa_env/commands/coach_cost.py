"""``mappa-env coach cost``: estimates calls, tokens, dollars and hours of a run's verdicts in advance."""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from mappa_env.commands._shared import COACH_HELP, at_least, check_target, command, spec_option, write_json
from mappa_env.costs.run_plan import BY_HAND, find
from mappa_env.errors import SandboxWarning
from mappa_env.registration import card_of, find_card

if TYPE_CHECKING:
    from mappa_env.costs.forecast import Forecast

CHARS_PER_TOKEN = 4.0


def add(commands: Any) -> None:
    """Add ``cost`` to the group ``coach``."""
    parser = command(
        commands, "cost", run, "estimate the cost of a run's verdicts, without API key or network"
    )
    parser.add_argument(
        "what", metavar="RECIPE|ENV", help="a recipe's name or file, a run's config.yaml, or an id"
    )
    parser.add_argument("--coach", metavar="SPEC", help=f"default: the recipe's. {COACH_HELP}")
    parser.add_argument(
        "--episodes", type=at_least(1), metavar="N", help=f"per step; default: the recipe's, or {BY_HAND}"
    )
    parser.add_argument("--steps", type=at_least(0), metavar="N", help="default: the recipe's, or 1")
    parser.add_argument(
        "--samples",
        type=at_least(1),
        default=8,
        metavar="N",
        help="scripted episodes to base the estimate on (default: %(default)s)",
    )
    parser.add_argument(
        "--chars-per-token",
        type=float,
        default=CHARS_PER_TOKEN,
        metavar="X",
        help="of the model's tokenizer (default: %(default)s)",
    )
    parser.add_argument("--thoughts", type=at_least(0), metavar="N", help="thinking tokens per answer")
    parser.add_argument("--sandbox", help="for those episodes; default: the recipe's, or local")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Print the estimate. Returns 0. Raises OptionError for a coach that calls no model."""
    from mappa_env.costs.forecast import forecast

    check_target("--json", args.json)
    plan = find(args.what, args.episodes, args.steps)
    if args.sandbox:
        plan = dataclasses.replace(
            plan, options={**plan.options, "sandbox": spec_option("--sandbox", args.sandbox)}
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SandboxWarning)  # the code that runs here is the package's own
        found = forecast(
            plan,
            find_card(card_of(plan.env_id)),
            spec_option("--coach", args.coach) if args.coach else plan.coach,
            samples=args.samples,
            chars_per_token=args.chars_per_token,
            thoughts=args.thoughts,
        )
    parts = {"training": plan.training, "evaluation": plan.evaluation, "anchors": plan.anchors}
    show(found, "episodes: " + ", ".join(f"{count:,} of {what}" for what, count in parts.items() if count))
    if args.json:
        write_json(args.json, dataclasses.asdict(found))
    return 0


def show(found: Forecast, episodes: str) -> None:
    """Print the estimate as a table, and its assumptions."""
    table = Table()
    table.add_column("")
    for name in found.cases:
        table.add_column(name, justify="right")
    least, mean, most = found.actions
    table.add_row("actions per episode", f"{least}", f"{mean:.1f}", f"{most}")
    for name, title in _ROWS.items():
        table.add_row(title, *(_figure(name, getattr(case, name)) for case in found.cases.values()))
    console = Console(width=None if Console().is_terminal else 110)
    console.print(
        f"{found.coach} on {found.env_id}: {episodes}", markup=False, highlight=False, soft_wrap=True
    )
    console.print(table)
    for note in found.notes:
        console.print(f"- {note}", markup=False, highlight=False)


_ROWS = {
    "calls": "calls",
    "prompt": "prompt tokens",
    "cached": "  of these cached",
    "output": "output tokens, with thoughts",
    "dollars": "dollars",
    "hours": "hours, at least (rate limits)",
}


def _figure(name: str, value: float | None) -> str:
    """Format calls exactly, estimates with two significant digits."""
    if value is None:
        return "unknown"
    if name == "calls" or not value:
        return f"{value:,}"
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"
