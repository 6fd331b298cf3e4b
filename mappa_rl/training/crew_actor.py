"""The actor that is a process of a crew, on any node of the cluster."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from mappa_rl.cluster.actors import here
from mappa_rl.cluster.network import held_port, place_among
from mappa_rl.config import Config
from mappa_rl.distributed import join_at, join_first
from mappa_rl.errors import RunError
from mappa_rl.training.members import Members, crew_members


class CrewActor:
    """Trains with its crew. One thread calls ``begin``, ``call`` and ``end``, another asks where it is."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}
        self._members: Members | None = None
        self._held: socket.socket | None = None

    def where(self) -> dict[str, Any]:
        """See ``here``; ``rank`` is its place in its crew, ``at work on`` a call and its policy, if any."""
        return {**here(), **self._said}

    def meeting(self) -> tuple[str, int]:
        """Address and port at which the crew can meet, if this is its first process: held from now on."""
        self._held = held_port(here()["address"])
        meet: tuple[str, int] = self._held.getsockname()
        return meet

    def begin(self, config: Config, start: Path, crew: int, rank: int, meet: tuple[str, int]) -> None:
        """Be process ``rank`` of a crew; all but the first follow that one until it ends.

        Raises RunError if this node does not see the run's folder.
        """
        import torch

        if not start.is_dir():
            raise RunError(
                f"{start} is missing on the node {here()['address']}: the run's folder must be on a file "
                "system that all nodes share. Choose one with out=."
            )
        self._said = {"rank": str(rank)}
        count = config.run.processes
        if count > 1:
            os.environ |= place_among(rank, count, here()["address"])
        torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
        if count > 1 and self._held is not None:
            join_first(self._held, count)
        elif count > 1:
            join_at(meet, rank, count)
        self._members = crew_members(config, start, crew)
        if rank:
            self._members.processes.follow()

    def call(self, member: str, method: str, options: dict[str, Any]) -> Any:
        """What a call of ``Crew`` returns or raises."""
        assert self._members is not None
        self._said["at work on"] = f"{method} of {member}"
        try:
            return self._members.answer(member, method, options)
        finally:
            del self._said["at work on"]

    def end(self) -> None:
        """Release the others of the crew."""
        assert self._members is not None
        with self._members.processes:
            pass
