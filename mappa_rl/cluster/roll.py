"""Who works for a run on its cluster: asked from outside, by another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.json_and_yaml import check_type, read_json
from mappa_rl.cluster.actors import free
from mappa_rl.cluster.session import RECORD, import_ray, visit
from mappa_rl.errors import ClusterError

_PLACE = ("actor", "node", "address", "pid")
_WORDS = ("address", "namespace", "token")
_TABLES = ("roles", "wants", "leader")
JOINING_S = 15.0
"""Seconds that the cluster has to answer."""
ANSWER_S = 5.0
"""Seconds that an actor has to say where it is."""


@dataclass(frozen=True, slots=True)
class Present:
    """A process of a run: its name, where it is and what it does.

    Process, node and address are empty for one that gave no answer; it may wait for its place.
    """

    name: str
    address: str
    node: str
    process: str
    doing: str


def call_roll(run: Path) -> list[Present]:
    """The processes of the run in ``run``, by name; empty if it is not at work on a cluster.

    Connects this process to the run's cluster, so call it in a process that is not connected. Raises
    ClusterError if the cluster cannot be reached.
    """
    try:
        record = _read((run / RECORD).read_bytes())
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{run / RECORD} is damaged ({error!r}): its cluster cannot be asked.") from None
    roles, wants, leader = (record[name] for name in _TABLES)
    visit(record["address"], record["namespace"], record["token"], JOINING_S)
    ray = import_ray()
    try:
        names = sorted(ray.util.list_named_actors())
        asked = {name: ray.get_actor(name).where.remote() for name in names}
        if asked:
            ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_S)
        found = {"leader": leader, **{name: _found(ray, call) for name, call in asked.items()}}
        return [_present(name, where, _of(name, roles), _of(name, wants)) for name, where in found.items()]
    finally:
        ray.shutdown()


def _read(text: bytes) -> dict[str, Any]:
    """The record of a run on a cluster, as ``joined`` writes it. Raises ValueError, KeyError, TypeError."""
    record: dict[str, Any] = read_json(text)
    for name in _TABLES:
        check_type(name, record[name], (dict,))
    leader = record["leader"]
    words = [(name, record[name]) for name in _WORDS] + [(name, leader[name]) for name in ("node", "address")]
    for name, word in (*words, *record["roles"].items(), *record["wants"].items()):
        check_type(name, word, (str,))
    check_type("pid", leader["pid"], (int,))
    return record


def _of(name: str, words: Mapping[str, str]) -> str:
    """The words for the actor ``name``, whose name begins with their key."""
    return next((text for key, text in words.items() if name == key or name.startswith(f"{key}-")), "")


def _present(name: str, where: Mapping[str, Any] | None, role: str, wants: str) -> Present:
    if where is None:
        waits = f"waits for {wants} (free are {free()})" if wants else "waits for its place"
        return Present(name, "", "", "", f"{waits}, or gives no answer")
    said = [
        f"{value} {key}" if isinstance(value, int) else f"{key} {value}"
        for key, value in where.items()
        if key not in _PLACE
    ]
    address, node, process = (str(where[key]) for key in ("address", "node", "pid"))
    return Present(name, address, node[:8], process, ", ".join(filter(None, [role, *said])))


def _found(ray: Any, call: Any) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = ray.get(call, timeout=0.1)
    except ray.exceptions.RayError:  # no answer yet, or it has died since
        return None
    return found
