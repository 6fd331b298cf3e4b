"""Where processes of several machines meet."""

from __future__ import annotations

import socket
from collections.abc import Mapping


def held_port(address: str) -> socket.socket:
    """A port of this machine's ``address`` that nobody else can take until the socket is closed."""
    held = socket.socket()
    try:
        held.bind((address, 0))
    except BaseException:
        held.close()
        raise
    return held


def interface_of(address: str) -> str:
    """The network interface of this machine with that address; empty if there is none."""
    import psutil

    found = psutil.net_if_addrs().items()
    return next((name for name, has in found if any(each.address == address for each in has)), "")


def place_among(rank: int, count: int, own: str) -> Mapping[str, str]:
    """The variables that tell a process its place among ``count``; ``own``: its address.

    It sees one GPU, if any.
    """
    found = {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": "0"}
    if name := interface_of(own):  # else gloo asks the name server who this machine is
        found["GLOO_SOCKET_IFNAME"] = name
    return found
