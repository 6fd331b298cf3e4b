"""The settings of a run: one typed schema. ``mappa-rl recipes --keys`` prints it with its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import model_validator

from mappa_env.errors import nearest
from mappa_rl.config.checks import CHECKS, repeats_outcome
from mappa_rl.config.engine import Engine
from mappa_rl.config.overrides import apply_overrides, read_yaml, validate, write_yaml
from mappa_rl.config.sections import Sections
from mappa_rl.errors import ConfigError

RECIPES = Path(__file__).parents[1] / "recipes"
ALIASES = {"out": "run.out", "cluster": "cluster.name"}
"""Short forms of override keys."""


class Config(Sections):
    """All settings of a run. Read one with ``load_config``."""

    @model_validator(mode="after")
    def _sections_fit(self) -> Self:
        for check in CHECKS:
            check(self)
        return self

    @property
    def repeats_outcome(self) -> bool:
        """Whether the reward of every action contains the outcome, so that no return may sum rewards."""
        return repeats_outcome(self)

    @property
    def is_async(self) -> bool:
        """Whether an ``AsyncRollout`` plays the episodes, as vLLM's batching needs."""
        asked = self.rollout.schedule
        wanted = bool(self.rollout.need_async) or self.engine.name == "vllm"
        return asked == "async" or (asked == "auto" and wanted)

    def engine_of(self, policy: str) -> Engine:
        """The ``engine`` section with what ``placement.engines`` says of ``policy``."""
        return self.placement.engine_of(policy, self.engine)

    def dump(self) -> str:
        """The whole config as YAML text that ``load_config`` reads back to an equal config."""
        return write_yaml(self.model_dump(mode="json"))

    def with_overrides(self, overrides: Sequence[str]) -> Config:
        """A copy with ``["a.b=c", ...]`` laid over it. Raises ConfigError.

        ``engine.name=hf`` also drops what this config says of vllm's engine, as ``auto`` does.
        """
        base = self.model_dump(mode="json", exclude_unset=True)
        data = apply_overrides(Config, base, overrides, ALIASES)
        engine = data.get("engine")
        if self.engine.name != "hf" and isinstance(engine, dict) and engine.get("name") == "hf":
            data = apply_overrides(Config, {**base, "engine": {}}, overrides, ALIASES)
        return validate(Config, data, "override")


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def load_config(recipe: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe by name, or any YAML file by path, and lay overrides over it. Raises ConfigError."""
    path = RECIPES / f"{recipe}.yaml" if str(recipe) in recipe_names() else Path(recipe)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        known = recipe_names()
        raise ConfigError(
            f"{str(recipe)!r} is neither a recipe nor a file.{nearest(str(recipe), known)} "
            f"Recipes: {', '.join(known)}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(recipe)!r} is not a readable YAML file: {error}") from None
    data = validate(Config, read_yaml(text, str(path)) or {}, str(path))
    return data.with_overrides(overrides) if overrides else data
