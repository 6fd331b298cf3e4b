"""``mappa-rl plan``: where to place a recipe on machines that need not be there, how fast, and why."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from rich.console import Console

from mappa_env.json_and_yaml import json_text
from mappa_rl.coach.files import asks_a_model
from mappa_rl.commands.options import RECIPE_HELP, add_model, add_overrides
from mappa_rl.config import Config, load_config
from mappa_rl.config.environment import env_card
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import shape_of
from mappa_rl.planning.figures import HARDWARE, Figure, found_figures
from mappa_rl.planning.machines import Machines
from mappa_rl.planning.numbers import check_range
from mappa_rl.planning.workload import measured, workload
from mappa_rl.telemetry.sinks import read_metrics

GPU_GB = (0.001, 10**6)
MOST_DOLLARS = 10**9
MOST_STALENESS = 100
"""What options may be. More steps between an action and its update than that, and nothing is learned."""
HELP = "recommend where a recipe trains and generates on given GPUs, and predict its speed"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("recipe", help=RECIPE_HELP)
    add_overrides(parser)
    add_model(parser)
    parser.add_argument("--gpus", type=int, required=True, metavar="N", help="GPUs of all nodes")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="equal machines (default: 1)")
    parser.add_argument(
        "--gpu-memory-gb",
        type=float,
        default=80.0,
        metavar="X",
        help="of each GPU, in 1e9 bytes (default: 80)",
    )
    parser.add_argument(
        "--sandboxes", type=int, metavar="N", help="actions whose code can run at once (default: no limit)"
    )
    parser.add_argument(
        "--coach-rpm", type=float, metavar="X", help="verdicts a minute that the coach's server allows"
    )
    parser.add_argument("--gpu-price", type=float, metavar="X", help="dollars for an hour of a GPU")
    parser.add_argument("--verdict-price", type=float, metavar="X", help="dollars for a verdict of the coach")
    parser.add_argument(
        "--staleness",
        type=int,
        metavar="N",
        help="most rollout.staleness that the plan may use (default: the recipe's)",
    )
    parser.add_argument(
        "--measured", type=Path, metavar="RUN", help="a run whose metrics replace assumptions about episodes"
    )
    parser.add_argument(
        "--assume",
        action="append",
        default=[],
        metavar="FIGURE=X",
        help="replace an assumption, for example sandbox_s=2.5; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the command; returns the exit status."""
    from mappa_rl.commands.plan_text import facts, show
    from mappa_rl.planning.plan import recommend

    config = load_config(args.recipe, args.overrides)
    machines = Machines(args.gpus, args.nodes, _bytes(args.gpu_memory_gb), args.sandboxes, args.coach_rpm)
    prices = _prices(args, asks_a_model(config))
    card = env_card(config.env.id)
    policies = PolicyMap.from_spec(config.policies.map, card.team.names, config.policies.frozen)
    kinds = sorted({config.model.kind, *config.policies.models.values()})
    shapes = [shape_of(config.model.model_copy(update={"kind": kind})) for kind in kinds]
    asked = workload(config, card, asks_a_model(config))
    figures = found_figures(_assumed(args.assume), HARDWARE, asked, _measured(args.measured, asked))
    plan = recommend(
        config,
        shapes,
        policies,
        machines,
        {key: figure.value for key, figure in figures.items()},
        staleness=_staleness(config, args.staleness),
    )
    command = shlex.join(["mappa-rl", "train", args.recipe, *args.overrides, *plan.best.overrides])
    if args.json:
        console.print_json(json_text(facts(plan, figures, command, prices)))
        return 0
    show(plan, machines, figures, command, prices, config, console)
    return 0


def _bytes(gigabytes: float) -> int:
    check_range("--gpu-memory-gb ", gigabytes, *GPU_GB)
    return int(gigabytes * 1e9)


def _measured(folder: Path | None, asked: tuple[Figure, ...]) -> tuple[Figure, ...]:
    """What the metrics of the run in ``folder`` say about the figures of the recipe."""
    if folder is None:
        return ()
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"--measured {folder} is not the folder of a run ({CONFIG} is missing).")
    known = {figure.key for figure in asked}
    all_train = not load_config(folder / CONFIG).policies.frozen
    figures = measured(read_metrics(folder), str(folder), all_train)
    found = tuple(each for each in figures if each.key in known)
    if not found:
        raise ConfigError(f"--measured {folder} has no finished training step yet.")
    return found


def _assumed(words: list[str]) -> dict[str, float]:
    found = {}
    for word in words:
        key, _, value = word.partition("=")
        if key in found:
            raise ConfigError(f"--assume {key} is set twice: keep one.")
        try:
            found[key] = float(value)
        except ValueError:
            raise ConfigError(
                f"--assume {word!r} must be FIGURE=NUMBER, for example sandbox_s=2.5."
            ) from None
    return found


def _prices(args: argparse.Namespace, judged_by_a_model: bool) -> dict[str, float]:
    given = {"gpu": args.gpu_price, "verdict": args.verdict_price}
    prices = {name: price for name, price in given.items() if price is not None}
    for name, price in prices.items():
        check_range(f"--{name}-price ", price, 0, MOST_DOLLARS)
    if prices.get("verdict") and not judged_by_a_model:
        raise ConfigError(
            f"--verdict-price {prices['verdict']:g}: the coach of {args.recipe} asks no model, so its "
            "verdicts cost nothing. Leave it out, or name a model in env.coach."
        )
    return prices


def _staleness(config: Config, wanted: int | None) -> int:
    own = config.rollout.staleness
    if wanted is None:
        return own
    check_range("--staleness ", wanted, 0, MOST_STALENESS)
    if wanted and config.algo.importance_sampling == "none":
        raise ConfigError(
            f"--staleness {wanted} needs importance sampling: add algo.importance_sampling=tis, or leave the "
            "option out."
        )
    return max(own, wanted)
