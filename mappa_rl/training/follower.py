"""The actor that is one of a run's further learner processes, on any node of the cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mappa_rl.cluster.actors import here
from mappa_rl.cluster.network import place_among
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.errors import RunError


class Follower:
    """Trains with the process that leads until that is done. An actor with room for two calls at once."""

    def __init__(self) -> None:
        self._rank = 0

    def where(self) -> dict[str, Any]:
        """See ``here``; ``rank`` is its place among the learner's processes."""
        return {**here(), "rank": str(self._rank)}

    def follow(self, run: Path, rank: int, meet: tuple[str, int]) -> None:
        """Follow the leader of the run in ``run``, which is at address and port ``meet``.

        Raises RunError if this node does not see the run's folder.
        """
        if not (run / CONFIG).is_file():
            raise RunError(
                f"{run} is missing on the node {here()['address']}: the run's folder must be on a file "
                "system that all nodes share. Choose one with out=."
            )
        self._rank = rank
        import torch

        from mappa_rl.config import load_config
        from mappa_rl.distributed import join_at
        from mappa_rl.training.members import follow
        from mappa_rl.warmstart.warmstart import start_folder

        config = load_config(run / CONFIG)
        count = config.run.processes
        os.environ |= place_among(rank, count, here()["address"])
        torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
        join_at(meet, rank, count)
        follow(config, start_folder(config, run))
