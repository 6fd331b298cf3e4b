"""``env.id``: an id, ``module:id`` as in ``gym.make``, a shipped card's name, or a card folder's path."""

from __future__ import annotations

import importlib
import os
from typing import Any

import gymnasium as gym

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.cards import Card
from mappa_env.errors import OptionError
from mappa_env.registration import card_of, find_card, id_of
from mappa_rl.config.schema import Config
from mappa_rl.errors import ConfigError


def make_env(env_id: str, **options: Any) -> gym.Env[Any, str]:
    """Make the environment that ``env.id`` names. Raises OptionError, CardError and errors of its parts."""
    return gym.make(registered(env_id), **options)


def env_card(env_id: str) -> Card:
    """The card that ``env.id`` names; needs neither data nor sandbox. Raises OptionError, CardError."""
    return find_card(card_of(registered(env_id)))


def registered(env_id: str) -> str:
    """The full id of ``env_id``, ``mappa/<name>``; a card folder is registered first.

    Raises OptionError for a name that is neither an id nor a card, CardError for a malformed card.
    """
    module, colon, name = env_id.rpartition(":")
    if not colon or os.path.isdir(env_id):
        return id_of(env_id)
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise OptionError(f"env.id={env_id!r}: the module {module!r} cannot be imported: {error}") from error
    return id_of(name)


def config_on(config: Config, env: str, tasks: str = "eval", named: str = "") -> Config:
    """The run's settings on another environment, for an evaluation on ``tasks``, without a coach.

    The coach stays where agents see its verdicts. ``named``: where the environment was named. Raises
    ConfigError unless the team is the run's; see also ``registered``.
    """
    env = registered(env)
    mine, theirs = env_card(config.env.id).team.names, env_card(env).team.names
    if set(mine) != set(theirs):
        raise ConfigError(
            f"{named or env} is for the team {', '.join(theirs)}, but the run trains {', '.join(mine)}: "
            "choose an environment with the run's team."
        )
    same = registered(config.env.id) == env
    changed: dict[str, Any] = {"id": env, "tasks_train": tasks, "tasks_eval": tasks}
    changed |= {"task_options": config.env.task_options if same else {}}
    changed |= {"coach": "off"} if config.env.coach_feedback == "off" else {}
    # None of these tasks is held out from training there, and all of them count.
    held = config.eval.model_copy(update={"validation_tasks": 0, "also": {}})
    drawn = config.rollout.model_copy(update={"tasks": 0})
    return config.model_copy(
        update={"env": config.env.model_copy(update=changed), "eval": held, "rollout": drawn}
    )
