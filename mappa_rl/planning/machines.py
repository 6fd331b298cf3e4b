"""The machines that a plan is for."""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.errors import ConfigError
from mappa_rl.planning.numbers import check_range

MOST_GPUS = 100_000
"""The most that a plan is for; the search for it takes seconds."""
MOST_SANDBOXES = 10**9
VERDICTS = (1e-6, 10**9)
"""Verdicts a minute that a coach's server may allow: fewest and most."""


@dataclass(frozen=True, slots=True)
class Machines:
    """``gpus`` in all, equally many on each of ``nodes``.

    Attributes:
        gpu_memory: Bytes of each GPU.
        sandboxes: Actions whose code can run at once; None: as many as there are episodes under way.
        coach_rpm: Verdicts a minute that the coach's server allows; None: no limit.

    Raises ConfigError where a number is out of range, or the GPUs do not divide among the nodes.
    """

    gpus: int
    nodes: int = 1
    gpu_memory: int = 80 * 10**9
    sandboxes: int | None = None
    coach_rpm: float | None = None

    def __post_init__(self) -> None:
        check_range("--gpus ", self.gpus, 1, MOST_GPUS)
        check_range("--nodes ", self.nodes, 1, MOST_GPUS)
        if self.sandboxes is not None:
            check_range("--sandboxes ", self.sandboxes, 1, MOST_SANDBOXES)
        if self.coach_rpm is not None:
            check_range("--coach-rpm ", self.coach_rpm, *VERDICTS)
        if self.gpus % self.nodes:
            raise ConfigError(
                f"--gpus {self.gpus} counts the GPUs of all nodes, and does not divide among --nodes "
                f"{self.nodes}: use a multiple of {self.nodes}, or plan for equal nodes alone."
            )

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node."""
        return self.gpus // self.nodes
