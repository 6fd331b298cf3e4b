"""Start a program as several processes of one torch.distributed group."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence


def run_processes(command: Sequence[str], count: int, *, timeout_s: float) -> None:
    """Run ``command`` in ``count`` processes on this machine, and fail unless all of them end well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(count),
        "OMP_NUM_THREADS": "1",
    }
    workers = [
        subprocess.Popen(command, env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(count)
    ]
    until = time.monotonic() + timeout_s
    try:
        while any(worker.poll() is None for worker in workers) and time.monotonic() < until:
            assert not any(worker.poll() for worker in workers)  # the others would wait for it
            time.sleep(0.1)
        assert [worker.poll() for worker in workers] == [0] * count
    finally:
        for worker in workers:
            worker.kill()
