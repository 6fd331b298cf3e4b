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
        self._lengths_fit()
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
        if rollout.staleness and self.algo.correction == "none":
            raise ValueError(
                f"rollout.staleness={rollout.staleness} trains on actions that older weights sampled; "
                "without a correction its gradient is biased. Use algo.correction=tis, or icepop."
            )
        if self.algo.drop_flat_groups and rollout.samples_per_task == 1:
            raise ValueError(
                "algo.drop_flat_groups compares episodes of one task, and rollout.samples_per_task=1 plays "
                "one. Set rollout.samples_per_task=8, or algo.drop_flat_groups=false."
            )
        if self.eval.episodes % self.eval.samples:
            raise ValueError(
                f"eval.samples={self.eval.samples} must divide eval.episodes={self.eval.episodes}."
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
        warmup = optim.warmup(updates)
        if updates and optim.schedule != "constant" and warmup >= updates:
            key = f"warmup_steps={warmup}" if optim.warmup_steps else f"warmup_share={optim.warmup_share:g}"
            raise ValueError(
                f"optim.{key} must be below the {updates} optimizer steps "
                "of the run (run.steps x optim.epochs x optim.minibatches)."
            )
        return self

    def _lengths_fit(self) -> None:
        """Every bound on actions leaves room for a prompt, and a penalty for length some to rise in."""
        rollout, wanted, buffer = self.rollout, self.eval, self.algo.overlong_buffer
        limits = {
            "rollout.max_new_tokens": rollout.max_new_tokens,
            "eval.max_new_tokens": wanted.max_new_tokens,
        }
        for section, agents in (("rollout", rollout.agents), ("eval", wanted.agents)):
            limits |= {
                f"{section}.agents.{a}.max_new_tokens": s.max_new_tokens or 0 for a, s in agents.items()
            }
        for key, limit in limits.items():
            if limit >= rollout.max_context:
                raise ValueError(
                    f"{key}={limit} leaves no room for a prompt in rollout.max_context={rollout.max_context}."
                )
            if self.algo.overlong_penalty and key.startswith("rollout") and 0 < limit <= buffer:
                raise ValueError(f"algo.overlong_buffer={buffer} must be below {key}={limit}.")

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
        if engine.sleep and self.rollout.staleness:
            raise ValueError(
                f"engine.sleep=true gives up the memory that rollout.staleness={self.rollout.staleness} "
                "generates with while the learner learns. Use one of the two."
            )
        if engine.devices and len(engine.devices) != engine.tensor_parallel:
            raise ValueError(
                f"engine.devices={engine.devices} must be so many as engine.tensor_parallel="
                f"{engine.tensor_parallel}."
            )

    @property
    def streamed(self) -> bool:
        """Whether episodes are played by a ``Stream``, as vLLM's batches want it."""
        asked = self.rollout.schedule
        wanted = bool(self.rollout.need_stream) or self.engine.name == "vllm"
        return asked == "stream" or (asked == "auto" and wanted)

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
