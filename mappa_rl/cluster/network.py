"""Where processes of several machines meet."""

from __future__ import annotations

import socket
from collections.abc import Mapping


def free_port(address: str) -> int:
    """A port of this machine's ``address`` that nobody has now."""
    with socket.socket() as listener:
        listener.bind((address, 0))
        return int(listener.getsockname()[1])


def interface_of(address: str) -> str:
    """The network interface of this machine with that address; empty if there is none."""
    import psutil

    found = psutil.net_if_addrs().items()
    return next((name for name, has in found if any(each.address == address for each in has)), "")


def place_among(rank: int, count: int, meet: tuple[str, int], own: str) -> Mapping[str, str]:
    """The variables that tell a process its place among ``count``, which meet at address and port ``meet``.

    ``own``: its address. It sees one GPU, if any.
    """
    found = {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": "0"}
    found |= {"MASTER_ADDR": meet[0], "MASTER_PORT": str(meet[1])}
    if name := interface_of(own):  # else gloo asks the name server who this machine is
        found["GLOO_SOCKET_IFNAME"] = name
    return found
