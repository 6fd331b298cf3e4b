"""What stands in the way of a run: packages, the model, data, keys, a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import gymnasium as gym

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.cards import Card
from mappa_env.coach import make_coach
from mappa_env.errors import MappaError
from mappa_env.registration import card_of, find_card
from mappa_rl.algorithm import algorithm_of
from mappa_rl.checks import check_coach, check_sampling
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError, EngineError, PolicyError
from mappa_rl.policies import PolicyMap
from mappa_rl.pretrained import model_folder
from mappa_rl.shapes import Shape, shape_of
from mappa_rl.tracking import lacking_key

NEEDED = ("torch", "transformers", "deepspeed")
SPLITS: tuple[Literal["train", "eval"], ...] = ("train", "eval")
LARGE = 500_000_000
"""Parameters from which on a run without a GPU is no plan."""


def missing(config: Config) -> Iterator[str]:
    """One line each, with its remedy."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    for name in lacking:
        yield f"the package {name}: pip install 'mappa[rl]'"
    for wanted, name, key in (
        (config.run.tensorboard, "tensorboard", "run.tensorboard=false"),
        (config.run.wandb, "wandb", "run.wandb=''"),
        (config.run.weave, "weave", "run.weave=''"),
    ):
        if wanted and importlib.util.find_spec(name) is None:
            yield f"the package {name}: pip install {name}, or {key}"
    if config.run.wandb or config.run.weave:
        yield from lacking_key()
    if not lacking:
        yield from _model(config)
        yield from _engine(config)
    if config.warmstart.path and not Path(config.warmstart.path).is_dir():
        yield f"warmstart.path={config.warmstart.path!r}: there is no such folder"
    try:
        algorithm_of(config)
    except ConfigError as error:
        yield str(error)
    card = card_of_run(config)
    if card is not None:
        try:
            policies = PolicyMap.from_spec(config.policies.map, card.team.names, config.policies.frozen)
            policies.check_trainable(config.policies.lr, "policies.lr")
        except PolicyError as error:
            yield f"policies: {error}"
    broken = list(_environment(config, card))
    yield from broken
    for check in () if broken else (check_coach, check_sampling):
        try:
            check(config)
        except (ConfigError, PolicyError) as error:
            yield str(error)


def card_of_run(config: Config) -> Card | None:
    """The environment's card; None where there is none, which ``missing`` says with the reason."""
    try:
        return find_card(card_of(config.env.id))
    except MappaError:
        return None


def known_shape(config: Config) -> Shape | None:
    """The model's shape; None where it cannot be known without the model."""
    try:
        return shape_of(config.model)
    except ConfigError:
        return None


def _engine(config: Config) -> Iterator[str]:
    from mappa_rl.engines.make import check_engine

    try:
        check_engine(config)
    except EngineError as error:
        yield f"the engine: {error}"


def _model(config: Config) -> Iterator[str]:
    tiny = config.model.kind == "tiny"
    if not tiny:
        try:
            model_folder(config.model.kind)
        except ConfigError as error:
            yield str(error)
    if tiny and not config.warmstart.steps and not config.warmstart.path:
        yield "a warm start: random weights without one (warmstart.steps=0) write nothing that earns a reward"
    import torch

    shape = known_shape(config)
    if shape is not None and shape.parameters >= LARGE and not torch.cuda.is_available():
        yield (
            f"a GPU: torch finds none, and a model of {shape.parameters / 1e9:.1f} billion parameters cannot "
            "be trained without"
        )


def _environment(config: Config, card: Card | None) -> Iterator[str]:
    """Tasks and sandbox of each split first, then the coach, so that all of them are named at once."""
    said = set()
    for split in SPLITS:
        try:
            gym.make(config.env.id, **(config.env.options(split) | {"coach": "off"})).close()
        except (MappaError, gym.error.Error) as error:
            if str(error) not in said:
                yield f"the environment ({split}): {error}"
            said.add(str(error))
    if card is None:
        return
    try:
        make_coach(config.env.coach, card).close()
    except MappaError as error:
        yield f"the coach: {error}"
