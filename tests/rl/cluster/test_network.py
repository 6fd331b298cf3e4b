"""Where processes meet: a port that stays theirs."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing

import psutil
import pytest

from mappa_rl.cluster.network import held_port

LIMIT_S = 90.0
FIRST = """
import socket, sys
import torch.distributed as dist
from mappa_rl.distributed import all_sum, join_first
join_first(socket.socket(fileno=int(sys.argv[1])), 2)
print(all_sum(1.0), flush=True)
sys.stdin.read()
"""
SECOND = """
import sys
from mappa_rl.distributed import all_sum, join_at
join_at(("127.0.0.1", int(sys.argv[1])), 1, 2)
all_sum(2.0)
sys.stdin.read()
"""


@pytest.mark.parametrize("shares", [False, True], ids=["plain", "SO_REUSEADDR"])
def test_nobody_takes_a_held_port(shares: bool) -> None:
    with held_port("127.0.0.1") as held, closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shares)
        with pytest.raises(OSError, match="in use"):
            other.bind(held.getsockname())


@pytest.mark.slow
def test_processes_meet_at_a_port_that_was_held_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only those that reach that address can."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with held_port("127.0.0.1") as held:
        port, number = held.getsockname()[1], held.fileno()
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        first = subprocess.Popen([sys.executable, "-c", FIRST, str(number)], pass_fds=[number], **options)
    second = subprocess.Popen([sys.executable, "-c", SECOND, str(port)], **options)
    try:
        assert first.stdout is not None
        assert first.stdout.readline().strip() == "[3.0]"
        listening = [
            each.laddr for each in psutil.Process(first.pid).net_connections() if each.status == "LISTEN"
        ]
        assert ("127.0.0.1", port) in listening
        assert {address for address, _ in listening} == {"127.0.0.1"}
        for each in (first, second):
            each.communicate(timeout=LIMIT_S)
            assert each.returncode == 0
    finally:
        first.kill()
        second.kill()
