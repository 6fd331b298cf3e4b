"""Who works for a run on its cluster: asked from outside, by another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.json_and_yaml import read_json
from mappa_rl.cluster.session import RECORD, import_ray, visit
from mappa_rl.errors import ClusterError

JOINING_S = 15.0
"""Seconds that the cluster has to answer."""
ANSWER_S = 5.0
"""Seconds that an actor has to say where it is."""


@dataclass(frozen=True, slots=True)
class Present:
    """An actor by name; ``found`` is what its ``where`` returned, None if it gave no answer."""

    name: str
    found: Mapping[str, Any] | None


def call_roll(run: Path) -> list[Present]:
    """The actors of the run in ``run``, by name; empty if it is not at work on a cluster.

    Connects this process to the run's cluster, so call it in a process that is not connected. Raises
    ClusterError if the cluster cannot be reached.
    """
    try:
        record = read_json((run / RECORD).read_bytes())
        address, namespace, token = (record[name] for name in ("address", "namespace", "token"))
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{run / RECORD} is damaged ({error!r}): its cluster cannot be asked.") from None
    visit(address, namespace, token, JOINING_S)
    ray = import_ray()
    try:
        names = sorted(ray.util.list_named_actors())
        asked = {name: ray.get_actor(name).where.remote() for name in names}
        if asked:
            ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_S)
        return [Present(name, _found(ray, call)) for name, call in asked.items()]
    finally:
        ray.shutdown()


def _found(ray: Any, call: Any) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = ray.get(call, timeout=0.1)
    except ray.exceptions.RayError:  # no answer yet, or it has died since
        return None
    return found
