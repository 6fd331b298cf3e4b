"""The connection of this process to Ray: a cluster that exists, or a head of its own."""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mappa_rl.config import Cluster
from mappa_rl.errors import ClusterError
from mappa_rl.futures import in_background

RECORD = "cluster.json"
NAMESPACE = "MAPPA_RAY_NAMESPACE"
"""Environment variable by which a launcher shares its names of actors with the process that leads."""
DRAWN = "MAPPA_RAY_TOKEN_DRAWN"
"""Environment variable with the process that drew the token for this run: its own processes inherit both."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
JOINING_S = 30.0
"""Most seconds that a head may take to answer, also where ``cluster.placement_s`` is longer."""
_CONNECTING = threading.Lock()
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray, which reads it when it is imported, then has its servers listen on 127.0.0.1 alone, on Linux, too."""
_STORE_BYTES = 512 * 2**20
"""Of an own head: what travels is small, and Ray would reserve a third of the memory."""
_POLL_S = 0.1
_log = logging.getLogger(__name__)


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
    os.environ.setdefault("RAY_SCHEDULER_EVENTS", "0")  # tips for those who use Ray by its own commands
    # Ray would hide all GPUs from an actor that reserves none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return importlib.import_module("ray")


def connect(cluster: Cluster) -> Any:
    """The package ``ray``, connected until the process ends, or the block of ``joined``.

    A head of its own listens on loopback alone, and answers nobody without a token that is drawn here.

    Raises ClusterError if Ray is missing, or the cluster does not answer within ``cluster.placement_s``
    seconds or ``JOINING_S``.
    """
    with _CONNECTING:
        address = cluster.address or os.environ.get("RAY_ADDRESS", "")
        if not address and "ray" not in sys.modules:  # Ray reads these once, when it is imported
            os.environ |= _LOOPBACK
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
        options = {"namespace": namespace, "logging_level": "WARNING"}
        if address:
            join(address, min(cluster.placement_s, JOINING_S), **options)
        else:
            _begin(ray, **options)
    return ray


def join(address: str, within_s: float, **options: Any) -> None:
    """Connect this process to the cluster whose head is at ``address``. ``options``: those of ``ray.init``.

    Ray itself would try for minutes, and hear no signal meanwhile. Raises ClusterError after ``within_s``.
    """
    ray = import_ray()
    try:
        _reach(address, within_s)
        with _signals_kept():
            ray.init(address, **options)
    except Exception as error:
        raise ClusterError(
            f"Ray gives no connection to {address} within {within_s:g} s: {type(error).__name__}: {error}. "
            "Check cluster.address or RAY_ADDRESS (host:port of the head), that the cluster runs (`ray "
            "status`), that it has the same versions of Ray and Python, and that RAY_AUTH_TOKEN is its token."
        ) from error


def visit(address: str, namespace: str, token: str, within_s: float) -> None:
    """Connect this process, which has not imported Ray, to the cluster of another process's run.

    ``token``: the one that was drawn for a head of that run's own, else empty. Raises ClusterError.
    """
    if token:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    if address.startswith("127."):  # else Ray would take this machine's other address instead
        os.environ |= _LOOPBACK
    join(address, within_s, namespace=namespace, log_to_driver=False, logging_level="ERROR")


def _reach(address: str, within_s: float) -> None:
    """Wait until a head answers at ``address``, if that is host and port. Raises what keeps it from that."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    ray, until, host = import_ray(), time.monotonic() + within_s, host.strip("[]")
    if host in ("localhost", "127.0.0.1", "::1"):  # as Ray does
        host = ray.util.get_node_ip_address()
    _listens(host, int(port), until)
    asked = in_background(partial(ray._raylet.GcsClient, address=f"{host}:{port}"))
    while not asked.done():  # so that a signal is heard
        if time.monotonic() >= until:
            raise TimeoutError(f"what listens on {host}:{port} does not answer as a head of Ray does")
        wait([asked], _POLL_S)
    asked.result()


def _listens(host: str, port: int, until: float) -> None:
    """Wait until something listens there. Raises OSError."""
    while True:
        try:
            left = max(until - time.monotonic(), _POLL_S)
            socket.create_connection((host, port), timeout=left).close()
            return
        except socket.gaierror:
            raise
        except OSError:
            if time.monotonic() >= until:
                raise
            time.sleep(_POLL_S)


@contextmanager
def _first_gpu_hidden() -> Iterator[None]:
    """Processes that begin in this block see all GPUs but the first, which the leading process uses."""
    import torch

    count = torch.cuda.device_count()
    if not count:
        yield
        return
    named = os.environ.get(VISIBLE)
    names = named.split(",") if named else map(str, range(count))
    os.environ[VISIBLE] = ",".join([*names][1:])
    try:
        yield
    finally:
        if named is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = named


def _begin(ray: Any, **options: Any) -> None:
    """Start a head on this machine. On the calling thread, with which its processes end."""
    if not _LOOPBACK.items() <= os.environ.items():
        _log.warning(
            "Ray was imported before the run: its head listens on all of this machine's addresses, with no "
            "token but yours. Import it later, or start the cluster yourself."
        )
    with _signals_kept(), _first_gpu_hidden():
        try:  # without an address, Ray would join a head that it finds
            ray.init("local", include_dashboard=False, object_store_memory=_STORE_BYTES, **options)
        except Exception as error:
            raise ClusterError(
                f"Ray cannot start a head on this machine: {type(error).__name__}: {error}."
            ) from error


def has_own_head(cluster: Cluster) -> bool:
    """Whether the run starts a head of its own, on this machine."""
    return not (cluster.address or os.environ.get("RAY_ADDRESS"))


def is_led() -> bool:
    """Whether a launcher has started this process, with the others of the run."""
    return NAMESPACE in os.environ


def disconnect() -> None:
    """Leave the cluster: this process's actors end, and so does a head of its own."""
    import_ray().shutdown()


@contextmanager
def joined(
    cluster: Cluster, out: Path, roles: Callable[[], Mapping[str, Mapping[str, str]]] = dict
) -> Iterator[None]:
    """Connected inside the block, if the run in ``out`` is on a cluster; its actors end with the block.

    ``roles``: what the record says of the run's processes besides. ``cluster.json`` in ``out`` is the record,
    for ``mappa-rl status``. It holds the token that was drawn for a
    head of the run's own, so only its owner can read it, but never the token of a user's cluster.
    """
    if cluster.name == "local":
        yield
        return
    path = out / RECORD
    ours = "ray" not in sys.modules or not import_ray().is_initialized()
    ray = connect(cluster)
    context = ray.get_runtime_context()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        token = os.environ["RAY_AUTH_TOKEN"] if DRAWN in os.environ else ""
        leader = {
            "pid": os.getpid(),
            "node": context.get_node_id(),
            "address": ray.util.get_node_ip_address(),
        }
        where = {"address": context.gcs_address, "namespace": context.namespace, "token": token}
        json.dump({**where, "leader": leader, **roles()}, file)
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
