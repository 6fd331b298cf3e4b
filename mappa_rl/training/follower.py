"""The actor that is one of a run's further learner processes, on any node of the cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_rl.cluster.actors import here
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.errors import RunError


class Follower:
    """Trains with the process that leads until that is done. An actor with room for two calls at once."""

    def __init__(self) -> None:
        self._rank = 0

    def where(self) -> dict[str, Any]:
        """See ``here``; ``rank`` is its place among the learner's processes."""
        return {**here(), "rank": self._rank}

    def follow(self, run: Path, variables: Mapping[str, str]) -> None:
        """Follow the leader of the run in ``run``; ``variables`` say where it is, as a launcher would.

        Raises RunError if this node does not see the run's folder.
        """
        if not (run / CONFIG).is_file():
            raise RunError(
                f"{run} is missing on the node {here()['address']}: the run's folder must be on a file "
                "system that all nodes share. Choose one with out=."
            )
        self._rank = int(variables["RANK"])
        os.environ |= variables
        if name := interface_of(here()["address"]):  # else gloo asks the name server who this machine is
            os.environ["GLOO_SOCKET_IFNAME"] = name
        import torch

        from mappa_rl.config import load_config
        from mappa_rl.training.build import follow
        from mappa_rl.warmstart.warmstart import start_folder

        config = load_config(run / CONFIG)
        torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
        follow(config, start_folder(config, run))


def interface_of(address: str) -> str:
    """The network interface of this machine with that address; empty if there is none."""
    import psutil

    found = psutil.net_if_addrs().items()
    return next((name for name, has in found if any(each.address == address for each in has)), "")
