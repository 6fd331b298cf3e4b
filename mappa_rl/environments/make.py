"""Makes the environments of a run where its config says they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mappa_rl.config import Config
from mappa_rl.config.environment import make_env
from mappa_rl.environments.base import MakeEnv


def maker(config: Config, options: Mapping[str, Any], in_flight: int, most: int) -> MakeEnv:
    """A function that makes environments with these ``options``; ``in_flight`` are used at once.

    ``most``: processes that play them on a cluster.
    """
    if config.cluster.name == "local":
        return partial(make_env, config.env.id, **options)
    from mappa_rl.environments.remote import RemoteEnv
    from mappa_rl.environments.workers import EnvWorkers

    workers = EnvWorkers(config.cluster, in_flight, most)
    return partial(RemoteEnv, workers, config.env.id, options, config.cluster.moves)
