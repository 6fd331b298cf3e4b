"""``--dry-run``: what a config would do, how large it is, and what is missing, without doing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mappa_env.cards import Card
from mappa_env.costs.run_plan import RunPlan, of_settings
from mappa_env.errors import MappaError
from mappa_rl.coach_files import asks_a_model
from mappa_rl.config import Config
from mappa_rl.errors import PolicyError
from mappa_rl.memory import checkpoint_bytes, estimate
from mappa_rl.policies import PolicyMap
from mappa_rl.requirements import card_of_run, known_shape, missing
from mappa_rl.sampling import evaluation_sampling, training_sampling
from mappa_rl.shapes import Shape

COST_SAMPLES = 4
"""Scripted episodes that a forecast of the coach's cost plays."""


@dataclass(frozen=True, slots=True)
class Work:
    """One phase of a run: ``tokens`` is the most it can generate, None where it generates nothing."""

    phase: str
    episodes: int
    steps: int
    tokens: int | None


def preview(config: Config, out: Path, seeds: list[int], console: Console) -> bool:
    """Print the resolved config, sizes, work, costs and what is missing. True: it could run."""
    lacking = list(missing(config))
    console.print(config.dump(), markup=False, highlight=False, end="")
    card, shape = card_of_run(config), known_shape(config)
    lines: list[str] = []
    if card is not None:
        try:
            policies = PolicyMap.from_spec(config.policies.map, card.team.names, config.policies.frozen)
        except PolicyError:
            policies = None  # `missing` says why
        if policies is not None:
            console.print(_policies(config, card, policies, shape))
            console.print(_work(config, card, seeds))
            if shape is not None:
                console.print(_memory(config, shape, policies))
                lines.append(_disk(config, shape, policies))
        lines += _coach(config, card)
    for line in (*lines, f"seeds: {', '.join(map(str, seeds))}", f"folder: {out}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    told = "".join(f"\n  {line}" for line in lacking) or " nothing"
    console.print(f"missing:{told}", markup=False, highlight=False, soft_wrap=True)
    return not lacking


def work(config: Config, turns: int) -> list[Work]:
    """The phases of a run of one seed; ``turns`` is the most actions that an episode can take."""
    longest = (training_sampling(config).longest, evaluation_sampling(config, 1.0).longest)
    action, evaluated = (turns * tokens for tokens in longest)
    phases = []
    if config.warmstart.steps and not config.warmstart.path:
        phases.append(Work("demonstrations", config.warmstart.episodes, 0, None))
        phases.append(Work("warm start", 0, config.warmstart.steps, None))
    if config.eval.calibration_temperatures:
        tried = {*config.eval.calibration_temperatures, *config.eval.temperatures}
        episodes = config.eval.calibration_episodes * len(tried)
        phases.append(Work("calibration", episodes, 0, episodes * evaluated))
    best = bool(config.eval.calibration_temperatures)
    held_out = config.eval.episodes * (len(config.eval.temperatures) + best)
    phases.append(Work("evaluation before", held_out, 0, held_out * evaluated))
    episodes = config.run.steps * config.rollout.episodes_per_step
    phases.append(Work("training", episodes, config.run.steps, episodes * action))
    if config.eval.validation:
        every = config.run.checkpoint_every or config.run.steps or 1
        episodes = config.eval.validation * -(-config.run.steps // every)
        phases.append(Work("validation", episodes, 0, episodes * evaluated))
    if config.eval.every:
        times = max(config.run.steps - 1, 0) // config.eval.every
        between = times * config.eval.episodes * len(config.eval.temperatures)
        phases.append(Work("evaluation on the way", between, 0, between * evaluated))
    phases.append(Work("evaluation after", held_out, 0, held_out * evaluated))
    return phases


def coach_calls(plan: RunPlan, card: Card) -> dict[str, tuple[int, int]]:
    """Fewest and most verdicts by phase: an action per agent, and every turn of the team."""
    least, most = len(card.team), sum(agent.max_turns for agent in card.team)
    parts = {"training": plan.training, "evaluation": plan.evaluation, "anchors": plan.anchors}
    return {what: (least * count, most * count) for what, count in parts.items() if count}


def _policies(config: Config, card: Card, policies: PolicyMap, shape: Shape | None) -> Table:
    table = Table(title="policies", title_justify="left", box=SIMPLE_HEAD)
    for column in ("policy", "agents", "trained"):
        table.add_column(column)
    table.add_column("parameters", justify="right")
    size = f"{shape.parameters:,}" if shape is not None else "?"
    if policies.lora:
        size = f"an adapter of rank {config.lora.rank} on {size}, which all share"
    for policy in policies.names:
        agents = ", ".join(name for name in card.team.names if policies.of(name) == policy)
        table.add_row(policy, agents, "yes" if policy in policies.trainable else "no", size)
    return table


def _work(config: Config, card: Card, seeds: list[int]) -> Table:
    title = "work" if len(seeds) == 1 else f"work of each of the {len(seeds)} seeds"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("phase")
    for column in ("episodes", "steps", "tokens generated, at most"):
        table.add_column(column, justify="right")
    for phase in work(config, sum(agent.max_turns for agent in card.team)):
        cells = [f"{value:,}" if value else "-" for value in (phase.episodes, phase.steps, phase.tokens)]
        table.add_row(phase.phase, *cells)
    return table


def _memory(config: Config, shape: Shape, policies: PolicyMap) -> Table:
    """Per process, each with a GPU of its own where there is one."""
    count, on_gpu = config.run.processes, _large(shape)
    engine = config.engine
    beside = on_gpu and engine.name == "vllm" and not engine.devices
    found = estimate(
        config, shape, policies, processes=count, device="cuda" if on_gpu else "cpu",
        engine_bytes=int(engine.memory_fraction * _gpu_bytes()) if beside else 0, engine_sleeps=engine.sleep,
        generates=beside or engine.name == "hf",
    )  # fmt: skip
    where = "per GPU" if on_gpu else "of the process"
    table = Table(
        title=f"memory {where} (estimate; {count} process{'es' if count > 1 else ''})", title_justify="left",
        box=SIMPLE_HEAD,
    )  # fmt: skip
    table.add_column("")
    table.add_column("GB", justify="right")
    rows = {
        "weights": found.weights, "reference": found.reference, "optimizer": found.optimizer,
        "gradients": found.gradients,
        f"activations of {config.optim.tokens_per_micro_batch:,} tokens": found.activations,
        "logits": found.logits,
        "generation: vLLM's share" if beside else "generation: key-value cache, at most": found.generation,
        "most at once: training, or generating": found.peak,
    }  # fmt: skip
    for name, size in rows.items():
        table.add_row(name, _gigabytes(size))
    if found.host:
        table.add_row("in main memory: optimizer", _gigabytes(found.host))
    return table


def _gpu_bytes() -> int:
    """Of the first GPU; where there is none, 80 GB are assumed."""
    import torch

    return torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else 80 * 10**9


def _large(shape: Shape) -> bool:
    from mappa_rl.requirements import LARGE

    return shape.parameters >= LARGE


def _disk(config: Config, shape: Shape, policies: PolicyMap) -> str:
    one = checkpoint_bytes(config, shape, policies)
    kept = config.run.keep
    return (
        f"disk (estimate): {_gigabytes(one)} GB a checkpoint, {kept} kept and one being written: "
        f"{_gigabytes(one * (kept + 1))} GB"
    )


def _coach(config: Config, card: Card) -> Iterator[str]:
    """How often the coach is asked, and what that costs where it is a model."""
    plan = of_settings(config.model_dump(mode="json"), "the config")
    name = config.env.coach if isinstance(config.env.coach, str) else config.env.coach.get("name")
    if name == "off":
        yield "coach: off, it is never asked"
        return
    calls = coach_calls(plan, card)
    told = ", ".join(f"{low:,} to {high:,} in {what}" for what, (low, high) in calls.items())
    yield f"coach: {name} judges actions: {told}"
    if not asks_a_model(config):
        return
    from mappa_env.costs.forecast import forecast

    try:
        found = forecast(plan, card, config.env.coach, samples=COST_SAMPLES).cases
    except MappaError as error:
        yield f"coach's cost: not known ({error})"
        return
    prices = {case: each.dollars for case, each in found.items()}
    if None in prices.values():
        yield "coach's cost: no price is known for this model (`mappa-env coach cost` takes one)"
        return
    told = ", ".join(f"{case} ${dollars:,.2f}" for case, dollars in prices.items())
    yield f"coach's cost (estimate): {told}; `mappa-env coach cost` says of what"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f}" if size >= 1e8 else f"{size / 1e9:.3f}"
