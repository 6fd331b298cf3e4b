"""The placement of a recipe on given machines with the most predicted episodes an hour, and the next best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Shape
from mappa_rl.planning.bottleneck import Bottleneck, first_bottleneck
from mappa_rl.planning.hardware import Hardware
from mappa_rl.planning.learner import Learner, Learners
from mappa_rl.planning.machines import Machines
from mappa_rl.planning.placement import WIDTHS, Placement, placements
from mappa_rl.planning.setup import Setup
from mappa_rl.planning.stage import Stage
from mappa_rl.planning.step import Step, predict
from mappa_rl.training.preflight.resources import Footprint, gigabytes

SAME = 0.999
"""Placements whose throughput is within this fraction of the best count as equal: the fewest GPUs win."""
ENOUGH = 0.9
"""The smallest placement with this fraction of the best throughput is shown, too."""
RUNNERS_UP = 3
NO_ROOM = "the engine's memory: weights and one context do not fit"


class Found(NamedTuple):
    """A placement that is possible, and the predicted seconds of its step: of thousands no more is kept."""

    seconds: float
    placement: Placement


@dataclass(frozen=True, slots=True)
class Candidate:
    """A placement, on which hardware, and what is predicted of it."""

    placement: Placement
    hardware: Hardware
    need: Footprint
    setup: Setup
    step: Step

    @property
    def overrides(self) -> tuple[str, ...]:
        """The settings in which it differs from the recipe."""
        return tuple(self.placement.overrides(self.hardware.config, self.hardware.machines))

    @property
    def episodes_per_hour(self) -> float:
        """Training episodes; evaluations and checkpoints are not counted."""
        return 3600 * self.setup.episodes / self.step.seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """``others``: label -> a placement that was not chosen. ``refused``: reason -> number of placements."""

    best: Candidate
    bottleneck: Bottleneck
    others: tuple[tuple[str, Candidate], ...]
    tried: int
    refused: Mapping[str, int]


def recommend(
    config: Config,
    shapes: Sequence[Shape],
    policies: PolicyMap,
    machines: Machines,
    figures: Mapping[str, float],
    *,
    staleness: int,
) -> Plan:
    """The plan of a recipe. ``staleness``: the most that a placement may use.

    ``shapes``: of all models that policies start from; every policy is assumed to be as large as the largest.

    Raises ConfigError where no placement fits the GPUs' memory, with the least that is needed and the
    remedies.
    """
    shape = max(shapes, key=lambda each: each.parameters)
    widths = [width for width in WIDTHS if all(each.splits_over(width) for each in shapes)]
    hardware = Hardware(config, shape, policies, machines, figures)
    learners = Learners(hardware)
    found: list[Found] = []
    refused: dict[str, int] = {}
    tried = 0
    for place in placements(config, policies, machines, staleness, widths):
        tried += 1
        learner = learners.of(place)
        if isinstance(learner, str):
            refused[learner] = refused.get(learner, 0) + 1
        elif not hardware.requests(place):
            refused[NO_ROOM] = refused.get(NO_ROOM, 0) + 1
        elif not learner.outdone:
            found.append(Found(predict(setup_of(hardware, place, learner)).seconds, place))
    if not found:
        raise ConfigError(_nothing(config, machines, learners.least, refused))
    found.sort(key=lambda each: each.seconds)
    best = min(
        (each for each in found if found[0].seconds >= SAME * each.seconds),
        key=lambda each: (
            each.placement.gpus,
            each.placement.offload,
            each.placement.zero_stage,
            each.seconds,
        ),
    )

    def whole(place: Placement) -> Candidate:
        learner = learners.of(place)
        assert isinstance(learner, Learner)  # it was found
        setup = setup_of(hardware, place, learner)
        return Candidate(place, hardware, learner.need, setup, predict(setup))

    chosen = whole(best.placement)
    others = tuple((label, whole(each.placement)) for label, each in _others(found, best, config))
    return Plan(chosen, first_bottleneck(chosen.setup), others, tried, refused)


def setup_of(hardware: Hardware, place: Placement, learner: Learner) -> Setup:
    """What the model of a step is given for a placement with its learner."""
    f, machines, config = hardware.figures, hardware.machines, learner.config
    rollout, together = config.rollout, place.in_flight(hardware.config)
    slots = float(machines.sandboxes or together)
    if not config.is_async:
        slots = min(slots, rollout.workers)
    workers = place.env_workers(hardware.config, machines) if place.ray else 1
    stages = [
        hardware.generation(place),
        Stage("environment", f["environment_s"], capacity=workers / f["environment_s"]),
        Stage("sandbox", f["sandbox_s"], capacity=slots / f["sandbox_s"], spread=f["length_spread"]),
    ]
    if place.ray:
        stages.append(Stage("leading process", f["leader_s"], capacity=1 / f["leader_s"]))
    if "coach_s" in f:
        verdicts = min(coach_calls(config) / f["coach_s"], (machines.coach_rpm or inf) / 60)
        visits = 1 / f["actions"] if config.env.judging == "deferred" else 1.0
        stages.append(Stage("coach", f["coach_s"], capacity=verdicts, visits=visits))
    return Setup(
        tuple(stages),
        rollout.episodes_per_step,
        f["actions"],
        learner.seconds,
        hardware.sync_s(place),
        place.staleness,
        0 if config.is_async else rollout.lockstep_groups,
    )


def coach_calls(config: Config) -> int:
    """Calls in flight at once where the coach is a language model, as its option or the default says."""
    from mappa_env.coach.llm.settings import Settings

    coach = config.env.coach
    given = {} if isinstance(coach, str) else coach
    return int(given.get("concurrency", Settings.model_fields["concurrency"].default))


def _others(found: list[Found], best: Found, config: Config) -> list[tuple[str, Found]]:
    """The smallest that is nearly as fast, the best without more staleness, and the next best."""
    fastest = best.seconds
    chosen: list[tuple[str, Found]] = []
    enough = [each for each in found if fastest >= ENOUGH * each.seconds]
    small = min(enough, key=lambda each: (each.placement.gpus, each.seconds))
    if small.placement.gpus < best.placement.gpus:
        chosen.append((f"fewest GPUs for {ENOUGH:.0%} of it", small))
    own = config.rollout.staleness
    alike = next((each for each in found if each.placement.staleness == own), None)
    if alike is not None and best.placement.staleness != own:
        chosen.append(("best with the recipe's staleness", alike))
    shown = {_layout(each) for _, each in chosen} | {_layout(best)}
    for each in found:
        if len(chosen) >= RUNNERS_UP + 2 or sum(label == "next" for label, _ in chosen) >= RUNNERS_UP:
            break
        if _layout(each) not in shown:
            shown.add(_layout(each))
            chosen.append(("next", each))
    return chosen


def _layout(each: Found) -> tuple[int, ...]:
    place = each.placement
    return place.crews, place.learners, place.tensor_parallel, place.replicas, place.staleness


def _nothing(config: Config, machines: Machines, least: float, refused: Mapping[str, int]) -> str:
    """Why no placement is possible, and what to change."""
    text = f"no placement of this recipe fits on {machines.gpus} GPUs of {gigabytes(machines.gpu_memory)} GB"
    if machines.nodes > 1:
        text += f" on {machines.nodes} nodes"
    if least < inf:
        text += f": a learner's GPU needs at least {gigabytes(int(least))} GB"
    elif refused:
        text += f": {max(refused, key=lambda reason: refused[reason])}"
    return (
        f"{text}. Lower optim.tokens_per_micro_batch or rollout.max_context, set "
        "optim.gradient_checkpointing=true, optim.dtype=bf16, policies.map=lora or policies.map=shared, "
        "raise engine.memory_fraction, or plan with more --gpus or a larger --gpu-memory-gb."
    )
