"""The machines that a plan is for."""

from __future__ import annotations

from dataclasses import dataclass

from mappa_rl.errors import ConfigError


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
        for name, value in (("gpus", self.gpus), ("nodes", self.nodes), ("sandboxes", self.sandboxes)):
            if value is not None and value < 1:
                raise ConfigError(f"--{name} {value} must be at least 1.")
        for name, amount in (("gpu-memory-gb", self.gpu_memory), ("coach-rpm", self.coach_rpm)):
            if amount is not None and not amount > 0:
                raise ConfigError(f"--{name} must be above 0.")
        if self.gpus % self.nodes:
            raise ConfigError(
                f"--gpus {self.gpus} counts the GPUs of all nodes, and does not divide among --nodes "
                f"{self.nodes}: use a multiple of {self.nodes}, or plan for equal nodes alone."
            )

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node."""
        return self.gpus // self.nodes
