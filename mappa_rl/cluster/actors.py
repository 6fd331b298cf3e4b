"""Calls to actors: bounded waits, and errors that say what is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mappa_rl.cluster.session import import_ray
from mappa_rl.errors import ActorLost, ClusterError

_SEEN: dict[str, Mapping[str, Any]] = {}
"""Actor -> where it was last: Ray's errors do not always say it."""
VERDICT_S = 20.0
"""Seconds that Ray may take to notice the death of a node whose machine still answers."""


def answer(reference: Any, what: str, timeout_s: float | None = None) -> Any:
    """What the call behind ``reference`` returns or raises, ``what`` naming its actor.

    Raises ActorLost if the actor or its node has died, ClusterError after ``timeout_s``.
    """
    ray = import_ray()
    try:
        return ray.get(reference, timeout=timeout_s)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise
    except ray.exceptions.GetTimeoutError:
        raise ClusterError(f"{what} gave no answer within {timeout_s:g} s.") from None
    except (
        ray.exceptions.RayActorError,
        ray.exceptions.RaySystemError,
        ray.exceptions.ObjectLostError,
    ) as error:
        raise ActorLost(f"{what} is lost{_last_seen(error)}: {_first_line(error)}") from None


def seen(where: Mapping[str, Any]) -> str:
    """Remember where an actor is, for messages; ``where``: its ``here``. Returns it in words."""
    _SEEN[where["actor"]] = where
    return f"process {where['pid']} on node {where['node'][:8]} at {where['address']}"


def placed(actor: Any, what: str, wanted: Mapping[str, float], wait_s: float) -> Any:
    """``actor``, once it runs. Raises ClusterError after ``wait_s`` seconds, with what is wanted and free."""
    ray = import_ray()
    try:
        seen(answer(actor.where.remote(), what, wait_s))
    except ActorLost:
        raise
    except ClusterError:
        error = unplaced(what, wanted, wait_s)
        ray.kill(actor)
        raise error from None
    return actor


def unplaced(what: str, wanted: Mapping[str, float], waited_s: float, count: int = 1) -> ClusterError:
    """The error that says what ``count`` actors wanted, each, and what is free."""
    times = f"{count} x " if count > 1 else ""
    return ClusterError(
        f"{what} was not placed within cluster.placement_s={waited_s:g}: it wants {times}{listed(wanted)}, "
        f"free are {free()}. Add nodes, ask for less, or raise cluster.placement_s."
    )


def free() -> str:
    """What the cluster has free."""
    return listed({k: size for k, size in import_ray().available_resources().items() if not _internal(k)})


def listed(resources: Mapping[str, float]) -> str:
    """Resources in words."""
    found = [
        f"{size / 1e9:.1f} GB {name}" if name == "memory" else f"{size:g} {name}"
        for name, size in resources.items()
    ]
    return ", ".join(found) or "none"


def here() -> dict[str, Any]:
    """Who the calling actor is and where: its node, address and process, and the GPUs that it has, if any."""
    ray = import_ray()
    context = ray.get_runtime_context()
    found = {
        "actor": context.get_actor_id(),
        "node": context.get_node_id(),
        "address": ray.util.get_node_ip_address(),
        "pid": os.getpid(),
    }
    gpus = sorted(map(str, context.get_accelerator_ids().get("GPU", ())))
    return found | ({"GPU": ",".join(gpus)} if gpus else {})


def _internal(name: str) -> bool:
    return name.startswith(("node:", "object_store_memory")) or "_group_" in name


def _last_seen(error: Exception) -> str:
    actor = getattr(error, "actor_id", None)
    return f" ({seen(_SEEN[actor])})" if actor in _SEEN else ""


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line.partition(". ")[0]  # what follows is of use to Ray's programmers
