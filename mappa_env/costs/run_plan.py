"""The number of episodes that a coach will judge: from a recipe, read as plain data, or given directly."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.errors import OptionError, nearest
from mappa_env.json_and_yaml import read_yaml

DEFAULTS: dict[str, dict[str, Any]] = {
    "env": {
        "id": "mappa/MathChat-v0",
        "tasks_train": "train",
        "task_options": {},
        "prompts": "compact",
        "coach": "rubric",
        "coach_feedback": "off",
        "sandbox": "local",
        "shaping": "process",
    },
    "rollout": {"episodes_per_step": 128},
    "eval": {
        "episodes": 400,
        "temperatures": [1.0],
        "calibration_temperatures": [0.2, 0.4, 0.6, 0.8],
        "calibration_episodes": 200,
        "every": 0,
    },
    "bias": {"anchors": 0, "anchors_every": 10},
    "run": {"steps": 40},
}
"""The learner's defaults for keys that a recipe does not set; a test compares them."""
BY_HAND = 100
"""Default number of episodes for an environment."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The episodes that a coach judges: ``training``, ``evaluation`` and ``anchors`` (all drift tests).

    ``options``: of the environment. ``traced``: every failed episode may need one more call.
    """

    source: str
    env_id: str
    options: dict[str, Any]
    coach: Any
    training: int
    evaluation: int
    anchors: int = 0
    traced: bool = False

    @property
    def episodes(self) -> int:
        """All judged episodes of the run."""
        return self.training + self.evaluation + self.anchors


def recipes() -> dict[str, Path]:
    """The recipes that ship with the learner, by name; the learner itself is not imported."""
    found = importlib.util.find_spec("mappa_rl")
    if found is None or found.origin is None:
        return {}
    return {path.stem: path for path in sorted(Path(found.origin).parent.glob("recipes/*.yaml"))}


def of_recipe(path: Path, episodes: int | None = None, steps: int | None = None) -> RunPlan:
    """The plan of the recipe at ``path``. ``episodes`` (per training step) and ``steps`` override it.

    Raises OptionError.
    """
    try:
        data = read_yaml(path.read_bytes()) or {}
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} is not a readable recipe: {error}") from None
    return of_settings(data, str(path), episodes, steps)


def of_settings(data: Any, path: str, episodes: int | None = None, steps: int | None = None) -> RunPlan:
    """The plan of a recipe's settings, read from ``path``. Raises OptionError."""
    if not isinstance(data, Mapping) or not all(isinstance(data.get(name, {}), Mapping) for name in DEFAULTS):
        raise OptionError(f"{path} is not a recipe: its sections ({', '.join(DEFAULTS)}) must be mappings.")
    env, rollout, held_out, bias, run = ({**DEFAULTS[name], **data.get(name, {})} for name in DEFAULTS)
    try:
        steps = int(run["steps"]) if steps is None else steps
        per_step = int(rollout["episodes_per_step"]) if episodes is None else episodes
        training, evaluation = per_step * steps, _evaluation(held_out, env, steps)
        anchors = int(bias["anchors"]) * (1 + steps // max(int(bias["anchors_every"]), 1))
    except (TypeError, ValueError) as error:
        raise OptionError(f"{path}: episodes and steps must be whole numbers: {error}") from None
    options = {name: env[name] for name in ("task_options", "prompts", "sandbox")}
    options["tasks"] = env["tasks_train"]
    return RunPlan(path, str(env["id"]), options, env["coach"], training, evaluation, anchors, _traced(env))


def by_hand(env_id: str, episodes: int | None = None, steps: int | None = None) -> RunPlan:
    """The plan of ``steps`` times ``episodes`` of one environment."""
    count = (BY_HAND if episodes is None else episodes) * (1 if steps is None else steps)
    return RunPlan(env_id, env_id, {}, "rubric", count, 0)


def find(what: str, episodes: int | None = None, steps: int | None = None) -> RunPlan:
    """The plan of a recipe (name or path) or of an environment. Raises OptionError for anything else."""
    from mappa_env.registration import card_of

    known = recipes()
    if what in known or Path(what).is_file():
        return of_recipe(known.get(what, Path(what)), episodes, steps)
    try:
        card_of(what)
    except OptionError as error:
        raise OptionError(
            f"{what!r} is neither a recipe ({', '.join(known) or 'the learner is not installed'}), nor a "
            f"recipe's file, nor an environment." + nearest(what, known) + f" {error}"
        ) from None
    return by_hand(what, episodes, steps)


def _traced(env: Mapping[str, Any]) -> bool:
    shaping = env["shaping"]
    return (shaping.get("name") if isinstance(shaping, Mapping) else shaping) == "backward"


def _evaluation(held_out: Mapping[str, Any], env: Mapping[str, Any], steps: int) -> int:
    """Judged evaluation episodes: before and after training; all, if agents see the coach's feedback."""
    episodes, fixed = int(held_out["episodes"]), list(held_out["temperatures"])
    if env["coach_feedback"] == "off":
        return 2 * episodes
    tried = list(held_out["calibration_temperatures"])
    calibration = len({*tried, *fixed}) * int(held_out["calibration_episodes"]) if tried else 0
    between = steps // int(held_out["every"]) * len(fixed) if held_out["every"] else 0
    return calibration + episodes * (2 * (len(fixed) + bool(tried)) + between)
