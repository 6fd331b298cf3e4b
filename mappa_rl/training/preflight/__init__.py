"""Everything that can be known to be wrong before the first second of work, found all at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mappa_rl.coach.anchors import check_scripted
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.training.preflight.algorithm import algorithm_problems
from mappa_rl.training.preflight.cluster import cluster_problems, wish_problems
from mappa_rl.training.preflight.coach import coach_problems, key_problems
from mappa_rl.training.preflight.environment import (
    environment_problems,
    find_card_or_none,
    repeats_problems,
    shaping_problems,
)
from mappa_rl.training.preflight.gpus import gpu_count, memory_problems, placement_problems
from mappa_rl.training.preflight.loss import loss_problems
from mappa_rl.training.preflight.model import (
    engine_problems,
    gpu_problems,
    known_shape,
    model_problems,
    width_problems,
)
from mappa_rl.training.preflight.packages import missing_packages, tracking_problems
from mappa_rl.training.preflight.problem import Problem, problems_of
from mappa_rl.training.preflight.resources import (
    footprint,
    on_gpus,
    process_problems,
    resource_problems,
)
from mappa_rl.training.preflight.team import policy_map, team_problems

__all__ = ["Problem", "Purpose", "find_problems", "refuse", "require"]

Purpose = Literal["train", "generate", "evaluate", "replay"]


def find_problems(
    config: Config,
    out: Path,
    *,
    purpose: Purpose = "train",
    shapings: Sequence[str] = (),
    runs: int = 1,
    parallel: int = 1,
    probe: bool = True,
) -> list[Problem]:
    """Every problem that stands in the way of a run; empty: it can start.

    Args:
        config: Settings of the run.
        out: Its folder, which need not exist.
        purpose: ``generate`` and ``evaluate`` save no checkpoints; ``evaluate`` starts from a run's
            weights and needs no algorithm; ``replay`` learns from recorded episodes in one process, and
            needs neither an environment nor a coach, only the card.
        shapings: Shapings to compare, in place of ``env.shaping``.
        runs: Number of runs.
        parallel: Runs at the same time.
        probe: Make one call to the coach's server where the coach is a model.
    """
    packages = missing_packages()
    found = [*packages, *tracking_problems(config), *cluster_problems(config)]
    card = find_card_or_none(config)
    learning: list[Problem] = []
    if purpose != "evaluate":
        learning = [*algorithm_problems(config), *([] if packages else loss_problems(config))]
        found += learning
    if not packages and purpose == "replay":
        found += gpu_problems(config) + process_problems(config)
    elif not packages:
        found += engine_problems(config) + gpu_problems(config)
        found += model_problems(config, card) if purpose != "evaluate" else []
    environment = environment_problems(config, card, plays=purpose != "replay")
    found += environment + shaping_problems(config, shapings)
    if purpose in ("train", "evaluate") and not environment:
        found += repeats_problems(config)
    if card is None:
        return found
    found += team_problems(config, card)
    replays = purpose == "replay"
    found += key_problems(config) if replays else coach_problems(config, card, probe and not environment)
    if purpose in ("train", "generate") and config.bias.anchors:
        found += problems_of("anchors", lambda: check_scripted(config.bias.anchors, card))
    policies, shape = policy_map(config, card), None if packages else known_shape(config)
    if policies is not None and not replays and not packages:
        found += width_problems(config, policies)
    if policies is not None and purpose == "train" and not packages:
        gpus = on_gpus(config, policies, shape)
        found += placement_problems(config, policies, gpus)
        found += wish_problems(config, policies, gpus or gpu_count() > 0)
    plans = purpose in ("train", "replay") and not learning  # what cannot be made needs no memory
    if plans and policies is not None and shape is not None:
        need = footprint(config, shape, policies, plays=purpose == "train")
        found += resource_problems(config, need, out, runs, parallel)
        found += memory_problems(config, policies, need)
    return found


def require(config: Config, out: Path, purpose: Purpose = "train") -> None:
    """Raises ConfigError that lists every problem of a run."""
    refuse(find_problems(config, out, purpose=purpose))


def refuse(problems: Sequence[Problem]) -> None:
    """Raises ConfigError that lists ``problems``, if there are any."""
    if len(problems) == 1:
        raise ConfigError(str(problems[0]))
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise ConfigError(f"{len(problems)} problems keep this run from starting:{lines}")
