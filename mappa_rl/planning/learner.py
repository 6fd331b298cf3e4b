"""The learners of placements: what they need and take, worked out once for all that learn alike."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.planning.hardware import Hardware
from mappa_rl.planning.placement import Placement
from mappa_rl.training.preflight.resources import Footprint, footprint


@dataclass(frozen=True, slots=True)
class Learner:
    """The learner of a placement that fits its GPUs.

    Attributes:
        config: The recipe with the placement's overrides.
        need: Its memory.
        seconds: Of a step.
        outdone: A plainer way to learn on the same GPUs, a lower ZeRO stage or one without offload, fits as
            well and is no slower: no plan would prefer this one.
    """

    config: Config
    need: Footprint
    seconds: float
    outdone: bool


class Learners:
    """Finds the learner of each placement. ``least``: bytes of a GPU for the smallest that did not fit."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._found: dict[tuple[object, ...], Learner | str] = {}
        self._plainer: dict[tuple[object, ...], list[tuple[int, bool, float]]] = {}
        self.least = inf

    def of(self, place: Placement) -> Learner | str:
        """The learner, or why the placement has none."""
        alike = (place.crews, place.learners, place.shares, place.staleness > 0, place.ray)
        key = (*alike, place.zero_stage, place.offload)
        if key not in self._found:
            self._found[key] = self._new(place, self._plainer.setdefault(alike, []))
        return self._found[key]

    def _new(self, place: Placement, plainer: list[tuple[int, bool, float]]) -> Learner | str:
        """``plainer``: stage, offload and seconds of those before; those of this one are added."""
        hardware = self._hardware
        machines, taken = hardware.machines, hardware.figures["learner_memory"]
        try:
            changed = hardware.config.with_overrides(place.overrides(hardware.config, machines))
        except ConfigError as error:
            return str(error)
        need = footprint(changed, hardware.shape, hardware.policies, gpu=machines.gpu_memory)
        if need.peak > machines.gpu_memory - taken:
            self.least = min(self.least, need.peak + taken)
            return "the learner's memory"
        own = (place.zero_stage, place.offload, hardware.learn_s(place))
        outdone = any(all(a <= b for a, b in zip(other, own, strict=True)) for other in plainer)
        plainer.append(own)
        return Learner(changed, need, own[2], outdone)
