"""The connection of this process to Ray: a cluster that exists, or a head of its own."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mappa_rl.config import Cluster
from mappa_rl.errors import ClusterError

RECORD = "cluster.json"
NAMESPACE = "MAPPA_RAY_NAMESPACE"
"""Environment variable by which a launcher shares its names of actors with the process that leads."""
DRAWN = "MAPPA_RAY_TOKEN_DRAWN"
"""Environment variable with the process that drew the token for this run: its own processes inherit both."""
_CONNECTING = threading.Lock()
_STORE_BYTES = 512 * 2**20
"""Of an own head: what travels is small, and Ray would reserve a third of the memory."""


def check_ray() -> None:
    """Raises ClusterError if Ray is missing."""
    if importlib.util.find_spec("ray") is None:
        raise ClusterError(
            "cluster=ray needs Ray, which is not installed: pip install 'mappa[ray]', or use cluster=local."
        )


def import_ray() -> Any:
    """The package ``ray``. Raises ClusterError if it is missing."""
    check_ray()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would hide all GPUs from an actor that reserves none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return importlib.import_module("ray")


def connect(cluster: Cluster) -> Any:
    """The package ``ray``, connected until the process ends, or the block of ``joined``.

    A head of its own listens on this machine's address, and answers nobody without a token that is drawn
    here: Ray has no way to listen on loopback alone.

    Raises ClusterError if Ray is missing or the cluster cannot be reached.
    """
    with _CONNECTING:
        address = cluster.address or os.environ.get("RAY_ADDRESS", "")
        if not address and "ray" not in sys.modules:  # Ray reads these once, when it is imported
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            if "RAY_AUTH_TOKEN" not in os.environ:
                os.environ |= {"RAY_AUTH_TOKEN": secrets.token_hex(32), DRAWN: str(os.getpid())}
        ray = import_ray()
        if ray.is_initialized():
            return ray
        if address and os.environ.get(DRAWN) == str(os.getpid()):
            raise ClusterError(
                f"cluster.address={address!r} cannot be joined: this process has had a head of its own, and "
                "Ray keeps that head's token until the process ends. Start another process."
            )
        namespace = os.environ.get(NAMESPACE) or f"mappa-{secrets.token_hex(8)}"
        options: dict[str, Any] = {"namespace": namespace, "logging_level": "WARNING"}
        options["address"] = address or "local"  # without one, Ray would join a head that it finds
        if not address:
            options |= {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
        with _signals_kept():
            try:
                ray.init(**options)
            except Exception as error:
                where = f"cluster.address={address!r}" if address else "a head on this machine"
                raise ClusterError(
                    f"Ray gives no connection to {where}: {type(error).__name__}: {error}. Check that the "
                    "cluster runs (`ray status`) and has the same versions of Ray and Python."
                ) from error
    return ray


def disconnect() -> None:
    """Leave the cluster: this process's actors end, and so does a head of its own."""
    import_ray().shutdown()


@contextmanager
def joined(cluster: Cluster, out: Path) -> Iterator[None]:
    """Connected inside the block, if the run in ``out`` is on a cluster; its actors end with the block.

    ``cluster.json`` in ``out`` says where, for ``mappa-rl status``. It holds the token that was drawn for a
    head of the run's own, so only its owner can read it, but never the token of a user's cluster.
    """
    if cluster.name == "local":
        yield
        return
    path = out / RECORD
    ours = "ray" not in sys.modules or not import_ray().is_initialized()
    context = connect(cluster).get_runtime_context()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        token = os.environ["RAY_AUTH_TOKEN"] if DRAWN in os.environ else ""
        json.dump({"address": context.gcs_address, "namespace": context.namespace, "token": token}, file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if ours:
            disconnect()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray sets its own handler for SIGTERM, which would end a run without its checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
