"""A Ray cluster of several nodes on this machine, by Ray's own utility: its nodes share the processors."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mappa_rl.cluster.session import DRAWN, import_ray
from mappa_rl.config import Cluster

MB = 2**20


@contextmanager
def alone() -> Iterator[None]:
    """One test at a time, over all processes of a test run, starts Ray: two processors are few for two."""
    with (Path(tempfile.gettempdir()) / "mappa-tests-ray.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def nodes(count: int, cpus: int = 4) -> Iterator[Any]:
    """Ray's ``Cluster`` of ``count`` nodes with ``cpus`` each, of which the last can be removed."""
    with alone():
        yield from _nodes(count, cpus)


def _nodes(count: int, cpus: int) -> Iterator[Any]:
    ray = import_ray()
    from ray.cluster_utils import Cluster as Nodes

    assert not ray.is_initialized()
    # A test before may have drawn a token, which Ray keeps in this process: these nodes ask for the same.
    drawn = os.environ.pop(DRAWN, None)
    cluster = Nodes()
    try:
        for number in range(count):
            first: dict[str, Any] = {"include_dashboard": False} if number == 0 else {}
            cluster.add_node(num_cpus=cpus, object_store_memory=100 * MB, **first)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        if drawn is not None:
            os.environ[DRAWN] = drawn


def section(nodes: Any, **changes: Any) -> Cluster:
    """The ``cluster`` section of a run there, with workers that start quickly and little."""
    own = {"name": "ray", "address": nodes.address, "env_cpus": 0.5, "placement_s": 60.0}
    return Cluster(**{**own, **changes})
