"""``--dry-run``: what a config would do, how large it is, and what is missing, without doing it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.cards import Card
from mappa_env.errors import MappaError
from mappa_env.registration import card_of, find_card
from mappa_rl.algorithm import algorithm_of
from mappa_rl.checks import check_coach, check_sampling
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError, PolicyError
from mappa_rl.policies import PolicyMap
from mappa_rl.sampling import evaluation_sampling, training_sampling
from mappa_rl.sections import Model

NEEDED = ("torch", "transformers", "deepspeed")


@dataclass(frozen=True, slots=True)
class Work:
    """One phase of a run: ``tokens`` is the most it can generate, None where it generates nothing."""

    phase: str
    episodes: int
    steps: int
    tokens: int | None


def preview(config: Config, out: Path, seeds: list[int], console: Console) -> bool:
    """Print the resolved config, the policies, the work, the folder and what is missing. True: could run."""
    lacking = list(missing(config))
    console.print(config.dump(), markup=False, highlight=False, end="")
    card = _card(config)
    if card is not None and not lacking:
        console.print(_policies(config, card))
        console.print(_work(config, card, seeds))
    console.print(f"seeds: {', '.join(map(str, seeds))}", markup=False, highlight=False)
    console.print(f"folder: {out}", markup=False, highlight=False)
    lines = "".join(f"\n  {line}" for line in lacking) or " nothing"
    console.print(f"missing:{lines}", markup=False, highlight=False, soft_wrap=True)
    return not lacking


def missing(config: Config) -> Iterator[str]:
    """What stands in the way of a run, one line each, with its remedy."""
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            yield f"the package {name}: pip install 'mappa[rl]'"
    if config.run.tensorboard and importlib.util.find_spec("tensorboard") is None:
        yield "the package tensorboard: pip install tensorboard, or run.tensorboard=false"
    if config.model.kind != "tiny" and not (Path(config.model.kind) / "config.json").is_file():
        yield f"model.kind={config.model.kind!r}: it is neither 'tiny' nor a folder with a config.json"
    if config.model.kind == "tiny" and not config.warmstart.steps and not config.warmstart.path:
        yield "a warm start: random weights without one (warmstart.steps=0) write nothing that earns a reward"
    if config.warmstart.path and not Path(config.warmstart.path).is_dir():
        yield f"warmstart.path={config.warmstart.path!r}: there is no such folder"
    try:
        algorithm_of(config)
    except ConfigError as error:
        yield str(error)
    card = _card(config)
    if card is not None:
        try:
            policies = PolicyMap.from_spec(config.policies.map, card.team.names, config.policies.frozen)
            policies.check_trainable(config.policies.lr, "policies.lr")
        except PolicyError as error:
            yield f"policies: {error}"
    for split in ("train", "eval"):
        try:
            gym.make(config.env.id, **config.env.options(split)).close()
        except (MappaError, gym.error.Error) as error:
            yield f"the environment ({split}): {error}"
            return
    for check in (check_coach, check_sampling):
        try:
            check(config)
        except (ConfigError, PolicyError) as error:
            yield str(error)


def count_parameters(model: Model) -> int:
    """Parameters of one policy: exact for a tiny model whose vocabulary fills up, read off a model folder."""
    if model.kind == "tiny":
        wide, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
        attention = model.hidden * (2 * wide + 2 * keys) + 2 * model.head_dim
        layer = attention + 3 * model.hidden * model.mlp + 2 * model.hidden
        return model.vocab_size * model.hidden + model.layers * layer + model.hidden
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        shape = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(model.kind, local_files_only=True)
        )
    return sum(parameter.numel() for parameter in shape.parameters())


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


def _card(config: Config) -> Card | None:
    try:
        return find_card(card_of(config.env.id))
    except MappaError:
        return None  # `missing` says so, with the reason


def _policies(config: Config, card: Card) -> Table:
    policies = PolicyMap.from_spec(config.policies.map, card.team.names, config.policies.frozen)
    table = Table(title="policies", title_justify="left", box=SIMPLE_HEAD)
    for column in ("policy", "agents", "trained"):
        table.add_column(column)
    table.add_column("parameters", justify="right")
    folder = Path(config.model.kind)
    known = config.model.kind == "tiny" or (folder / "config.json").is_file()
    size = f"{count_parameters(config.model):,}" if known else "?"
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
