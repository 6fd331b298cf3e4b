"""The settings of a run: one typed schema. ``mappa-rl recipes --keys`` prints it with its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from mappa_rl.errors import ConfigError
from mappa_rl.overrides import apply_overrides, read_yaml, validate, write_yaml
from mappa_rl.sections import (
    SFT,
    Algo,
    Bias,
    Engine,
    Env,
    Eval,
    Lora,
    Model,
    Optim,
    Policies,
    Rollout,
    Run,
    Section,
    WarmStart,
)

RECIPES = Path(__file__).parent / "recipes"
ALIASES = {"out": "run.out"}
"""Short forms of override keys."""


class Config(Section):
    """All settings of a run. Read one with ``load_config``."""

    env: Env = Env()
    policies: Policies = Policies()
    lora: Lora = Lora()
    engine: Engine = Engine()
    model: Model = Model()
    warmstart: WarmStart = WarmStart()
    rollout: Rollout = Rollout()
    algo: Algo = Algo()
    sft: SFT = SFT()
    optim: Optim = Optim()
    eval: Eval = Eval()
    bias: Bias = Bias()
    run: Run = Run()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rollout = self.rollout
        if rollout.max_context > self.model.max_len:
            raise ValueError(
                f"rollout.max_context={rollout.max_context} exceeds model.max_len={self.model.max_len}."
            )
        if rollout.max_new_tokens >= rollout.max_context:
            raise ValueError(
                f"rollout.max_new_tokens={rollout.max_new_tokens} leaves no room for a prompt in "
                f"rollout.max_context={rollout.max_context}."
            )
        if rollout.groups > rollout.episodes_per_step:
            raise ValueError(
                f"rollout.groups={rollout.groups} needs at least as many rollout.episodes_per_step, "
                f"found {rollout.episodes_per_step}."
            )
        if rollout.episodes_per_step % rollout.samples_per_task:
            raise ValueError(
                f"rollout.samples_per_task={rollout.samples_per_task} must divide rollout.episodes_per_step="
                f"{rollout.episodes_per_step}."
            )
        if self.algo.drop_flat_groups and rollout.samples_per_task == 1:
            raise ValueError(
                "algo.drop_flat_groups compares episodes of one task, and rollout.samples_per_task=1 plays "
                "one. Set rollout.samples_per_task=8, or algo.drop_flat_groups=false."
            )
        if self.algo.overlong_penalty and self.algo.overlong_buffer >= rollout.max_new_tokens:
            raise ValueError(
                f"algo.overlong_buffer={self.algo.overlong_buffer} must be below rollout.max_new_tokens="
                f"{rollout.max_new_tokens}."
            )
        shaping = self.env.shaping
        paid = shaping if isinstance(shaping, str) else shaping.get("name")
        if self.algo.mode == "return_to_go" and paid != "process":
            raise ValueError(
                f"algo.mode=return_to_go does not go with env.shaping={paid}: every action is credited with "
                "the outcome already, and a return would count it once per turn. Use algo.mode=per_action."
            )
        self._bias_fits(paid)
        self._engine_fits()
        start, optim = self.warmstart, self.optim
        if start.steps and start.warmup_steps >= start.steps:
            raise ValueError(
                f"warmstart.warmup_steps={start.warmup_steps} must be below warmstart.steps={start.steps}."
            )
        updates = self.run.steps * optim.epochs * optim.minibatches
        if updates and optim.schedule != "constant" and optim.warmup_steps >= updates:
            raise ValueError(
                f"optim.warmup_steps={optim.warmup_steps} must be below the {updates} optimizer steps "
                "of the run (run.steps x optim.epochs x optim.minibatches)."
            )
        return self

    def _bias_fits(self, paid: Any) -> None:
        coach, bias = self.env.coach, self.bias
        name = str(coach if isinstance(coach, str) else coach.get("name"))
        if bias.correct != "off" and (paid == "outcome" or name == "off"):
            raise ValueError(
                f"bias.correct={bias.correct} corrects scores, and env.shaping={paid} with env.coach={name} "
                "pays none. Use bias.correct=off."
            )
        if bias.anchors and (name == "off" or name.startswith("replay:")):
            raise ValueError(
                f"bias.anchors={bias.anchors} asks the coach anew, and env.coach={name} cannot be asked. Use "
                "bias.anchors=0."
            )

    def _engine_fits(self) -> None:
        engine = self.engine
        if self.optim.zero_stage == 3 and engine.name == "hf":
            raise ValueError(
                "optim.zero_stage=3 scatters weights that the hf engine reads whole while it generates; use "
                "engine.name=vllm, or optim.zero_stage=2, and optim.offload=true where memory is short."
            )
        if engine.name == "hf":
            own = [key for key, value in Engine() if getattr(engine, key) != value]
            if own:
                raise ValueError(f"engine.{own[0]} does nothing with engine.name=hf. Use engine.name=vllm.")
        if engine.devices and len(engine.devices) != engine.tensor_parallel:
            raise ValueError(
                f"engine.devices={engine.devices} must be so many as engine.tensor_parallel="
                f"{engine.tensor_parallel}."
            )

    def dump(self) -> str:
        """The whole config as YAML text that ``load_config`` reads back to an equal config."""
        return write_yaml(self.model_dump(mode="json"))

    def with_overrides(self, overrides: Sequence[str]) -> Config:
        """A copy with ``["a.b=c", ...]`` laid over it. Raises ConfigError."""
        data = apply_overrides(Config, self.model_dump(mode="json"), overrides, ALIASES)
        return validate(Config, data, "override")


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def load_config(recipe: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe by name, or any YAML file by path, and lay overrides over it. Raises ConfigError."""
    path = RECIPES / f"{recipe}.yaml" if str(recipe) in recipe_names() else Path(recipe)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{str(recipe)!r} is neither a recipe ({', '.join(recipe_names())}) nor a readable file: {error}"
        ) from None
    data = validate(Config, read_yaml(text, str(path)) or {}, str(path))
    return data.with_overrides(overrides) if overrides else data
