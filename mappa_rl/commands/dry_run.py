"""``--dry-run``: what a command would do, how large it is, and every problem, without doing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mappa_env.cards import Card
from mappa_env.costs.run_plan import RunPlan, of_settings
from mappa_env.errors import MappaError
from mappa_rl.coach.files import asks_a_model
from mappa_rl.commands.console import say, say_unread
from mappa_rl.commands.duration import LAUNCH, durations
from mappa_rl.commands.rehearsal import rehearse
from mappa_rl.commands.work import Work, evaluation_work, generation_work, work
from mappa_rl.config import Config
from mappa_rl.disk import free_disk
from mappa_rl.errors import ConfigError, RunError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Shape, shape_of
from mappa_rl.telemetry.progress import clock
from mappa_rl.training.preflight import Problem, find_problems
from mappa_rl.training.preflight.cluster import cluster_remarks
from mappa_rl.training.preflight.environment import find_card_or_none
from mappa_rl.training.preflight.gpus import gpu_count, gpu_remarks
from mappa_rl.training.preflight.measured import HELPERS, PROCESS
from mappa_rl.training.preflight.model import known_shape
from mappa_rl.training.preflight.placement import placement
from mappa_rl.training.preflight.resources import Footprint, footprint, free_memory, gigabytes, gpu_bytes
from mappa_rl.training.preflight.team import policy_map

COST_SAMPLES = 4
"""Scripted episodes that the forecast of the coach's cost is based on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of one command. ``overrides``: the user's own settings; ``shapings``: empty for ``train``."""

    config: Config
    out: Path
    seeds: Sequence[int]
    overrides: Sequence[str] = ()
    shapings: Sequence[str] = ()
    parallel: int = 1
    verbose: bool = False
    rehearses: bool = True

    @property
    def runs(self) -> int:
        """Number of runs: seeds times shapings."""
        return len(self.seeds) * max(len(self.shapings), 1)


def preview(plan: Plan, console: Console) -> bool:
    """Print runs, sizes, work, costs and problems of ``plan``. True: it could start."""
    config = plan.config
    _settings(config, plan.overrides, plan.verbose, console)
    say(console, _runs(plan))
    card = find_card_or_none(config)
    problems = find_problems(config, plan.out, shapings=plan.shapings, runs=plan.runs, parallel=plan.parallel)
    if card is not None:
        shape, policies = known_shape(config), policy_map(config, card)
        if policies is not None:
            console.print(_policies(config, card, policies, shape))
        phases, seconds = work(config, card.order.most_actions), dict[str, float]()
        if plan.rehearses and not problems:
            say(console, "rehearsing the run to estimate its time (--no-rehearsal skips this)")
            seconds, problems = _rehearsed(config, card, phases)
        console.print(_work(phases, seconds, plan.runs))
        if rounds := config.rollout.refill_rounds:
            say(
                console,
                f"rollout.refill_rounds={rounds}: training may play and judge up to {rounds + 1} times "
                "as many episodes",
            )
        if seconds:
            say(console, _time(plan, sum(seconds.values())))
        if policies is not None and shape is not None:
            need = footprint(config, shape, policies)
            console.print(_placement(config, policies, need))
            if plan.verbose:
                console.print(_memory(config, need))
            _resources(plan, need, console)
            found = gpu_remarks(config, policies, need)
            found += cluster_remarks(config, policies, need.on_gpu or gpu_count() > 0)
            if found:
                say(console, f"remarks ({len(found)}):" + "".join(f"\n  {remark}" for remark in found))
        for line in _coach(config, card, of_settings(config.model_dump(mode="json"), "the config")):
            say(console, line)
    return _conclude(plan.out, problems, console)


def preview_play(
    config: Config,
    out: Path,
    console: Console,
    purpose: Literal["evaluate", "generate"],
    *,
    source: Path | None,
    overrides: Sequence[str] = (),
    verbose: bool = False,
) -> bool:
    """Print what ``mappa-rl eval`` or ``generate`` would play, its coach's calls and its problems.

    ``source``: the checkpoint that plays; None: the start of a run. True: it could start.
    """
    _settings(config, overrides, verbose, console)
    say(console, f"weights: {'those that a run of this recipe begins with' if source is None else source}")
    card = find_card_or_none(config)
    problems = find_problems(config, out, purpose=purpose)
    if card is not None:
        turns = card.order.most_actions
        judged = of_settings(config.model_dump(mode="json"), "the config")
        if purpose == "evaluate":
            phases = evaluation_work(config, turns)
            judged = of_settings(config.model_dump(mode="json"), "the config", steps=0)
            judged = replace(judged, anchors=0)
        else:
            phases, judged = generation_work(config, turns, source is None), replace(judged, evaluation=0)
        console.print(_work(phases, {}, 1))
        for line in _coach(config, card, judged):
            say(console, line)
    return _conclude(out, problems, console)


def coach_calls(plan: RunPlan, card: Card) -> dict[str, tuple[int, int]]:
    """Fewest and most verdicts by phase: an action per agent, and every turn of the team."""
    least, most = card.order.fewest_segments, card.order.most_actions
    parts = {"training": plan.training, "evaluation": plan.evaluation, "anchors": plan.anchors}
    return {what: (least * count, most * count) for what, count in parts.items() if count}


def _settings(config: Config, overrides: Sequence[str], verbose: bool, console: Console) -> None:
    if verbose:
        say(console, config.dump().rstrip())
    for text in overrides:
        say(console, f"changed: {text}")
    say_unread(config, overrides, console)


def preview_rest(folders: Sequence[Path], out: Path, problems: Sequence[Problem], console: Console) -> bool:
    """Print which of several runs would be resumed, and their problems. True: they could start."""
    say(
        console, f"runs to resume: {', '.join(folder.name for folder in folders) or 'none, all are finished'}"
    )
    return _conclude(out, problems, console)


def _conclude(out: Path, problems: Sequence[Problem], console: Console) -> bool:
    say(console, f"folder: {out}")
    if problems:
        say(console, f"problems ({len(problems)}):" + "".join(f"\n  {problem}" for problem in problems))
    else:
        say(console, "problems: none")
    return not problems


def _runs(plan: Plan) -> str:
    seeds = f"{len(plan.seeds)} seed{'s' if len(plan.seeds) > 1 else ''} ({', '.join(map(str, plan.seeds))})"
    count = f"{plan.runs} run{'s' if plan.runs > 1 else ''}"
    if plan.shapings:
        return f"runs: {len(plan.shapings)} shapings ({', '.join(plan.shapings)}) x {seeds} = {count}"
    return f"runs: {seeds} = {count}"


def _policies(config: Config, card: Card, policies: PolicyMap, shape: Shape | None) -> Table:
    table = Table(title="policies", title_justify="left", box=SIMPLE_HEAD)
    for column in ("policy", "agents", "trained"):
        table.add_column(column)
    table.add_column("parameters", justify="right")
    for policy in policies.names:
        kind = config.policies.models.get(policy, config.model.kind)
        size = "unknown"
        if shape is not None:
            size = f"{shape_of(config.model.model_copy(update={'kind': kind})).parameters:,}"
        if policies.lora:
            size = f"an adapter of rank {config.lora.rank} on a shared base of {size}"
        agents = ", ".join(name for name in card.team.names if policies.of(name) == policy)
        table.add_row(policy, agents, "yes" if policy in policies.trainable else "no", size)
    return table


def _rehearsed(config: Config, card: Card, phases: list[Work]) -> tuple[dict[str, float], list[Problem]]:
    """Phase -> seconds, or the problem that ended the rehearsal."""
    try:
        return durations(rehearse(config, card), phases), []
    except (RunError, ConfigError) as error:
        return {}, [Problem("rehearsal", str(error))]


def _work(phases: list[Work], seconds: Mapping[str, float], runs: int) -> Table:
    title = "work" if runs == 1 else f"work of each of the {runs} runs"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("phase")
    for column in (
        "episodes",
        "steps",
        "tokens generated, at most",
        *(["time (estimate)"] if seconds else []),
    ):
        table.add_column(column, justify="right")
    for phase in phases:
        cells = [f"{value:,}" if value else "-" for value in (phase.episodes, phase.steps, phase.tokens)]
        table.add_row(phase.phase, *cells, *([clock(seconds[phase.phase])] if seconds else []))
    if seconds:
        table.add_row(LAUNCH, "-", "-", "-", clock(seconds[LAUNCH]))
    return table


def _time(plan: Plan, seconds: float) -> str:
    """The time of one run and of all, if parallel runs do not slow each other down."""
    text = f"time (estimate): {clock(seconds)} on this machine"
    if plan.runs > 1:
        waves = -(-plan.runs // plan.parallel)
        text += f" per run, {clock(waves * seconds)} in all if parallel runs do not slow each other down"
    if asks_a_model(plan.config):
        text += ", not counting the coach's answers"
    return text


def _placement(config: Config, policies: PolicyMap, need: Footprint) -> Table:
    """Which place trains and which generates, with the memory of each."""
    title = "placement (memory is an estimate)"
    if need.on_gpu:
        assumed = "" if gpu_count() else ", as is assumed without one here"
        title = f"placement (memory is an estimate; a GPU has {gigabytes(gpu_bytes())} GB{assumed})"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in ("place", "node", "trains", "generates"):
        table.add_column(column)
    for column in ("GB at the start", "in generation", "in training"):
        table.add_column(column, justify="right")
    for place in placement(config, policies, need):
        sizes = (place.start, place.generation, place.training)
        cells = ("-" if size is None else gigabytes(size) for size in sizes)
        table.add_row(place.name, place.node, place.trains or "-", place.generates or "-", *cells)
    return table


def _memory(config: Config, need: Footprint) -> Table:
    """The memory per process; each process has its own GPU, if there are any."""
    count, found = config.run.processes, need.memory
    where = "per GPU" if need.on_gpu else "of the process"
    table = Table(
        title=f"memory {where} (estimate; {count} process{'es' if count > 1 else ''})",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("")
    table.add_column("GB", justify="right")
    rows = {
        "weights": found.weights,
        "reference": found.reference,
        "optimizer": found.optimizer,
        "gradients": found.gradients,
        "ZeRO's buffers": found.buffers,
        f"activations of {config.optim.tokens_per_micro_batch:,} tokens": found.activations,
        "logits": found.logits,
        "fragments of the C library's heap": found.fragments,
        "generation: vLLM's part"
        if need.shared
        else "generation: key-value cache, at most": found.generation,
        "when the policies start, at most": found.start,
        "for a checkpoint: adapters merged into a copy": found.merging,
        "peak": found.peak,
        "before, in the first process: warm start": need.warm,
    }
    for name, size in rows.items():
        if size:
            table.add_row(name, gigabytes(size))
    if need.engines:
        table.add_row("vLLM's processes, in all", gigabytes(need.engines))
    table.add_row("a process's libraries", gigabytes(PROCESS))
    table.add_row("the processes that grade and run code", gigabytes(HELPERS))
    if found.host:
        table.add_row("in main memory: optimizer, and weights for engines", gigabytes(found.host))
    return table


def _resources(plan: Plan, need: Footprint, console: Console) -> None:
    free, on_gpus = free_memory(), f"{gigabytes(need.peak)} GB per GPU that trains, " if need.on_gpu else ""
    available = f"; {gigabytes(free)} GB are free on this machine" if free is not None else ""
    main = f"{gigabytes(need.main)} GB of main memory per run"
    if plan.config.cluster.name == "ray":
        main += f", of it {gigabytes(need.leading)} GB for the process that leads, on this machine"
        if need.processes > 1 or need.crews:
            main += f", and {gigabytes(need.following)} GB on its node for each other that trains"
    say(console, f"memory (estimate): {on_gpus}{main}{available}")
    say(
        console,
        f"disk (estimate): {gigabytes(need.disk * plan.runs)} GB of checkpoints; "
        f"{gigabytes(free_disk(plan.out))} GB are free",
    )


def _coach(config: Config, card: Card, plan: RunPlan) -> Iterator[str]:
    """The number of coach calls, and their cost if the coach is a model."""
    name = config.env.coach if isinstance(config.env.coach, str) else config.env.coach.get("name")
    if name == "off":
        yield "coach: off, so the run calls none"
        return
    calls = coach_calls(plan, card)
    counts = ", ".join(f"{low:,} to {high:,} actions in {what}" for what, (low, high) in calls.items())
    yield f"coach: {name} judges per run: {counts}"
    if not asks_a_model(config):
        return
    from mappa_env.costs.forecast import forecast

    try:
        found = forecast(plan, card, config.env.coach, samples=COST_SAMPLES).cases
    except MappaError as error:
        yield f"coach's cost: unknown ({error})"
        return
    prices = {case: each.dollars for case, each in found.items()}
    if None in prices.values():
        yield "coach's cost: the price of this model is unknown (`mappa-env coach cost` takes one)"
        return
    dollars = ", ".join(f"{case} ${price:,.2f}" for case, price in prices.items())
    yield f"coach's cost (estimate): {dollars} per run; `mappa-env coach cost` gives details"
