"""Packages and keys that a run needs on this machine."""

from __future__ import annotations

import importlib.util

from mappa_rl.config import Config
from mappa_rl.telemetry.tracking import missing_key
from mappa_rl.training.preflight.problem import Problem

NEEDED = ("torch", "transformers", "deepspeed")


def missing_packages() -> list[Problem]:
    """The packages of the learner that are not installed."""
    return [
        Problem("packages", f"{name} is not installed: pip install 'mappa[rl]'.")
        for name in NEEDED
        if importlib.util.find_spec(name) is None
    ]


def tracking_problems(config: Config) -> list[Problem]:
    """Trackers that the run asks for and that are not installed, or have no key."""
    found = [
        Problem("packages", f"{name} is not installed: pip install {name}, or set {remedy}.")
        for wanted, name, remedy in (
            (config.run.tensorboard, "tensorboard", "run.tensorboard=false"),
            (config.run.wandb, "wandb", "run.wandb=''"),
            (config.run.weave, "weave", "run.weave=''"),
        )
        if wanted and importlib.util.find_spec(name) is None
    ]
    keyless = [
        *(missing_key("wandb") if config.run.wandb else ()),
        *(missing_key("weave") if config.run.weave else ()),
    ]
    return [*found, *(Problem("tracking", message) for message in keyless)]
