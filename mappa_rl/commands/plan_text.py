"""What ``mappa-rl plan`` prints of a plan: tables, reasons and assumptions, or the same as data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mappa_rl.commands.console import say
from mappa_rl.config import Config
from mappa_rl.planning.bottleneck import Bottleneck
from mappa_rl.planning.figures import Figure
from mappa_rl.planning.machines import Machines
from mappa_rl.planning.plan import Candidate, Plan
from mappa_rl.planning.step import TIE
from mappa_rl.telemetry.progress import clock
from mappa_rl.training.preflight.resources import gigabytes

MORE = {
    "generation": "GPUs that generate",
    "learning": "GPUs that train",
    "weight sync": "bandwidth for weights",
    "sandbox": "sandboxes",
    "coach": "verdicts at once and a minute",
    "environment": "processes that play environments (cluster=ray)",
    "leading process": "processors for the leading process, which has one",
}
"""Stage -> what there can be more of."""


def show(
    plan: Plan,
    machines: Machines,
    figures: Mapping[str, Figure],
    command: str,
    prices: Mapping[str, float],
    config: Config,
    console: Console,
) -> None:
    """Print the plan. ``command``: what it recommends; ``prices``: dollars of a GPU's hour, of a verdict."""
    best = plan.best
    say(console, "PREDICTED from the assumptions below; nothing of this was measured on a GPU.")
    say(console, f"{command} --dry-run")
    for line in _nodes(best, machines, config):
        say(console, line)
    console.print(_gpus(best, machines))
    console.print(_parts(best))
    say(
        console,
        f"episodes an hour: {best.episodes_per_hour:,.0f}; a run of {config.run.steps:,} steps: "
        f"{clock(config.run.steps * best.step.seconds)}, without evaluations and checkpoints",
    )
    for line in _costs(best, prices, config):
        say(console, line)
    say(console, f"first bottleneck: {_why(plan.bottleneck, best)}")
    say(
        console,
        f"memory (estimate): {gigabytes(best.need.peak)} GB of each learner's GPU, "
        f"{gigabytes(best.need.main)} GB of main memory in all",
    )
    console.print(_others(plan))
    if not best.placement.staleness and config.algo.importance_sampling != "none":
        say(console, "on policy: --staleness 1 also tries placements that play episodes while they learn")
    for reason, count in plan.refused.items():
        say(console, f"left out, {count:,} of {plan.tried:,} placements: {reason}")
    console.print(_assumptions(figures))


def _gpus(best: Candidate, machines: Machines) -> Table:
    place = best.placement
    table = Table(title=f"{place.gpus} of {machines.gpus} GPUs", title_justify="left", box=SIMPLE_HEAD)
    for column in ("GPUs", "part", "settings"):
        table.add_column(column)
    crews = f" in {place.crews} crews of {place.learners}" if place.crews > 1 else ""
    shared = f", and generates ({place.engine})" if place.shares else ""
    leads = f" (the first one leads{shared})" if place.training > 1 else shared
    table.add_row(
        str(place.training),
        f"train{crews}{leads}",
        f"ZeRO {place.zero_stage}{', optimizer in main memory' if place.offload else ''}",
    )
    if place.engine_gpus:
        servers = f"{place.servers} x " if place.apart and place.servers > 1 else ""
        table.add_row(
            str(place.engine_gpus),
            "generate",
            f"{servers}{place.replicas} replicas over {place.tensor_parallel} each",
        )
    return table


def _nodes(best: Candidate, machines: Machines, config: Config) -> Iterator[str]:
    """How to start Ray on the nodes, so that the command finds them as planned."""
    place = best.placement
    if not place.ray:
        return
    yield (
        "the command joins the cluster of the node that it is typed on (cluster.address): start Ray there "
        "first, without GPU 0, which the process that leads uses (docs/cluster.md)"
    )
    if not place.keeps_nodes(machines):
        return
    trains, generates = place.learner_nodes(machines), place.engine_nodes(machines)
    learner, engine = place.node_resources(config)
    more = f" and {trains - 1} more" if trains > 1 else ""
    yield (
        f"an engine takes {place.tensor_parallel} GPUs of one node, so no learner may take one of them: "
        f"start this node{more} with `ray start {_resource(learner, machines.gpus_per_node)}`, and "
        f"{generates} other{'s' if generates > 1 else ''} with "
        f"`{_resource(engine, machines.gpus_per_node // place.tensor_parallel)}`"
    )


def _resource(name: str, count: int) -> str:
    return f"--resources '{json.dumps({name: count})}'"


def _parts(best: Candidate) -> Table:
    step = best.step
    title = f"a step, PREDICTED: {step.seconds:,.1f} s for {best.setup.episodes:,} episodes"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in ("stage", "s", "of the step", "busy"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for name, seconds in step.parts.items():
        busy = f"{step.busy[name]:.0%}" if name in step.busy else "-"
        table.add_row(name, f"{seconds:,.1f}", f"{seconds / step.seconds:.0%}", busy)
    return table


def _why(found: Bottleneck, best: Candidate) -> str:
    parts, seconds = best.step.parts, best.step.seconds
    text = " and ".join(f"{name}, {parts[name] / seconds:.0%} of the step" for name in found.names)
    text += f" (less than {TIE:.0%} apart: a tie)." if len(found.names) > 1 else "."
    if found.factor is None:
        return (
            f"{text} More of it does not change that: an action's own seconds take that long. Shorten "
            "them, or have more episodes under way (rollout.episodes_per_step, rollout.staleness)."
        )
    return (
        f"{text} {found.factor:.3g} times as many {' and '.join(MORE[name] for name in found.names)} would "
        f"leave {found.then} as the first, and make a step {found.speedup:.2f} times as fast."
    )


def _others(plan: Plan) -> Table:
    table = Table(title="runners-up", title_justify="left", box=SIMPLE_HEAD)
    for column in (
        "",
        "GPUs",
        "train",
        "generate",
        "staleness",
        "s a step",
        "episodes / h",
        "first bottleneck",
    ):
        table.add_column(column, justify="left" if column in ("", "first bottleneck") else "right")
    for label, each in (("chosen", plan.best), *plan.others):
        place = each.placement
        table.add_row(
            label,
            str(place.gpus),
            f"{place.crews} x {place.learners}" if place.crews > 1 else str(place.learners),
            f"{place.replicas} x {place.tensor_parallel}" + (f" x {place.servers}" if place.apart else ""),
            str(place.staleness),
            f"{each.step.seconds:,.1f}",
            f"{each.episodes_per_hour:,.0f}",
            " / ".join(each.step.bottlenecks),
        )
    return table


def _assumptions(figures: Mapping[str, Figure]) -> Table:
    table = Table(title="figures (change one with --assume)", title_justify="left", box=SIMPLE_HEAD)
    for column in ("figure", "value", "unit", "of what", "source"):
        table.add_column(column, justify="right" if column == "value" else "left", overflow="fold")
    for each in figures.values():
        table.add_row(each.key, f"{each.value:.4g}", each.unit, each.meaning, each.source)
    return table


def _costs(best: Candidate, prices: Mapping[str, float], config: Config) -> Iterator[str]:
    for what, dollars in _dollars(best, prices).items():
        steps = config.run.steps
        yield f"{what}: ${dollars:,.2f} a step, ${steps * dollars:,.2f} for {steps:,} steps"


def _dollars(best: Candidate, prices: Mapping[str, float]) -> dict[str, float]:
    """Cost of a step, for what a price is known."""
    found = {}
    if "gpu" in prices:
        found["GPUs"] = best.placement.gpus * best.step.seconds / 3600 * prices["gpu"]
    if "verdict" in prices:
        found["coach"] = best.setup.episodes * best.setup.actions * prices["verdict"]
    return found


def facts(
    plan: Plan, figures: Mapping[str, Figure], command: str, prices: Mapping[str, float]
) -> dict[str, Any]:
    """The plan as JSON. All of it is predicted."""

    def one(each: Candidate) -> dict[str, Any]:
        return {
            "placement": {**asdict(each.placement), "gpus": each.placement.gpus},
            "overrides": list(each.overrides),
            "step_s": each.step.seconds,
            "parts_s": each.step.parts,
            "busy": each.step.busy,
            "episodes_per_hour": each.episodes_per_hour,
            "learner_gpu_bytes": each.need.peak,
            "dollars_per_step": _dollars(each, prices),
        }

    return {
        "predicted": True,
        "command": command,
        **one(plan.best),
        "bottleneck": asdict(plan.bottleneck),
        "others": [{"label": label, **one(each)} for label, each in plan.others],
        "tried": plan.tried,
        "refused": dict(plan.refused),
        "figures": [asdict(figure) for figure in figures.values()],
    }
