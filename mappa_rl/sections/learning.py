"""What the policies learn from, and how."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mappa_rl.sections.base import Count, Fraction, NotNegative, Positive, Section


class WarmStart(Section):
    """Supervised steps on a scripted team's episodes, before reinforcement learning."""

    path: str = ""
    """Folder of a warm start that an earlier run saved (``<run>/warmstart``); empty: make one."""
    episodes: Count = 16000
    """Episodes of demonstrations; the tokenizer of a tiny model is trained on them too."""
    team: Literal["expert", "faulty"] = "faulty"
    """The scripted team to imitate."""
    steps: Annotated[int, Field(ge=0)] = 3000
    """Optimizer steps; 0: no warm start, the policies begin as the model that ``model.kind`` names."""
    batch: Count = 16
    """Demonstrated actions per step."""
    lr: Positive = 3e-3
    """Peak learning rate; falls linearly to 0."""
    warmup_steps: Annotated[int, Field(ge=0)] = 50
    """Steps over which the learning rate rises."""
    prompt_weight: Fraction = 0.1
    """Weight of prompt tokens in the loss; action tokens have 1."""
    name_weight: Positive = 1.0
    """Weight of action tokens that spell what the prompt has in single quotes: names to be copied."""
    renamed: Annotated[int, Field(ge=0)] = 0
    """Further copies of each demonstration in which those names are exchanged for other training tasks'."""


class Algo(Section):
    """From rewards to advantages to the loss."""

    name: str = "reinforce_pp"
    """The algorithm: its name, or a class of your own as ``path/mine.py:Class``."""
    options: dict[str, Any] = {}
    """Settings that this algorithm has beside those below (for instance ``omega: 0.5`` for gigpo)."""
    mode: Literal["per_action", "return_to_go"] = "per_action"
    """``per_action``: an action earns its own reward; ``return_to_go``: also the later ones of its agent."""
    gamma: Fraction = 1.0
    """Discount per action (only ``return_to_go``)."""
    reward_scale: Positive = 0.1
    """Factor on rewards before all else (scores are 0-10)."""
    reward_clip: Positive = 10.0
    """Scaled rewards are clipped to plus and minus this."""
    kl_coef: NotNegative = 0.01
    """Weight of the KL penalty to the warm start, per token."""
    kl_in: Literal["reward", "loss"] = "reward"
    """Where the KL penalty goes: into the reward (k1), or into the loss (k2 or k3)."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k1"
    """Estimate of the KL divergence; pairs with ``kl_in`` that give a wrong gradient are refused."""
    mask_truncated: bool = False
    """Do not train on actions that were cut at ``rollout.max_new_tokens``."""
    overlong_penalty: NotNegative = 0.0
    """Points (of 0-10) taken from an action of ``rollout.max_new_tokens``; 0: none."""
    overlong_buffer: Count = 16
    """Tokens before that limit over which the overlong penalty rises."""
    drop_flat_groups: bool = False
    """Leave out an agent's actions on tasks where all of them were paid the same; needs groups."""
    loss: Literal["ppo", "gspo", "cispo"] = "ppo"
    """The loss: clipped token by token, by the whole action's ratio, or by clipped weights."""
    clip: Positive = 0.2
    """The probability ratio's clip range is [1 - clip, 1 + clip_high]."""
    clip_high: NotNegative = 0.0
    """Upper side of the clip range; 0: as ``clip``."""
    dual_clip: NotNegative = 0.0
    """Bound above 1 on the ratio where the advantage is negative (only ``ppo``); 0: none."""
    correction: Literal["none", "tis", "icepop"] = "none"
    """Weights against a sampler whose log-probs differ from the learner's: truncated, or masked outside."""
    correction_bounds: tuple[NotNegative, Positive] = (0.5, 5.0)
    """Bounds of these weights, below and above 1."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.kl_coef and (self.kl_in, self.kl_estimator) == ("loss", "k1"):
            raise ValueError(
                "algo.kl_in=loss algo.kl_estimator=k1: its gradient is 0 on average, so it holds nothing "
                "back. Use algo.kl_estimator=k2 (the gradient of k1 in the reward) or k3."
            )
        if self.kl_coef and self.kl_in == "reward" and self.kl_estimator != "k1":
            raise ValueError(
                f"algo.kl_in=reward algo.kl_estimator={self.kl_estimator}: its gradient is biased, and "
                "vanishes near the warm start. Use algo.kl_estimator=k1, or algo.kl_in=loss."
            )
        if self.dual_clip and (self.dual_clip <= 1 or self.loss != "ppo"):
            raise ValueError(
                f"algo.dual_clip={self.dual_clip:g} with algo.loss={self.loss}: it must be above 1, for "
                "instance 3, and goes with algo.loss=ppo alone. Use algo.dual_clip=0."
            )
        low, high = self.correction_bounds
        if not low < 1 < high:
            raise ValueError(
                f"algo.correction_bounds=[{low:g}, {high:g}] must lie on both sides of 1, as [0.5, 5.0] does."
            )
        return self


class SFT(Section):
    """Supervised learning beside reinforcement."""

    corrections_coef: NotNegative = 0.0
    """Weight of an action token that the coach corrected, beside the sampled ones; needs a coach that
    corrects."""


class Optim(Section):
    """The learner's optimizer (AdamW), one per policy."""

    lr: Positive = 3e-4
    """Peak learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Course of the learning rate after its rise, over all training steps."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps over which the learning rate rises."""
    warmup_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same as a share of all optimizer steps, rounded up; in place of ``warmup_steps``."""
    lr_floor: Fraction = 0.0
    """Share of ``lr`` that ``linear`` and ``cosine`` end at."""
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    """AdamW's two decay rates."""
    weight_decay: NotNegative = 0.0
    """AdamW's weight decay."""
    grad_clip: Positive = 1.0
    """Largest norm of a policy's gradient."""
    epochs: Count = 1
    """Passes over a step's episodes."""
    minibatches: Count = 2
    """Optimizer steps per pass."""
    tokens_per_micro_batch: Count = 8192
    """Most tokens in one forward pass; changes memory and speed, never the gradient."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """Precision of weights and gradients; ``bf16`` keeps fp32 weights for the optimizer (ZeRO 1 or 2)."""
    attention: Literal["auto", "sdpa", "flash"] = "auto"
    """Kernel of attention in the learner: ``sdpa`` runs everywhere, ``flash`` with ``dtype: bf16`` on a GPU;
    ``auto`` takes flash where it runs."""
    gradient_checkpointing: bool = False
    """Keep only the inputs of decoder layers for the backward pass and compute the rest again."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """DeepSpeed's ZeRO stage."""
    offload: bool = False
    """Keep the optimizer's state in main memory (ZeRO 1 or 2)."""

    def warmup(self, updates: int) -> int:
        """Optimizer steps of the rise, of ``updates`` in all."""
        return self.warmup_steps or math.ceil(self.warmup_share * updates)

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.warmup_steps and self.warmup_share:
            raise ValueError(
                f"optim.warmup_steps={self.warmup_steps} and optim.warmup_share={self.warmup_share:g} say "
                "the same thing twice: set one of them to 0."
            )
        if self.lr_floor and self.schedule == "constant":
            raise ValueError(
                f"optim.lr_floor={self.lr_floor:g} has no effect with optim.schedule=constant: choose linear "
                "or cosine, or set it to 0."
            )
        return self

    @model_validator(mode="after")
    def _zero(self) -> Self:
        for asked, key in ((self.dtype == "bf16", "dtype=bf16"), (self.offload, "offload=true")):
            if asked and self.zero_stage == 0:
                raise ValueError(
                    f"optim.{key} needs optim.zero_stage of 1 or 2: stage 0 leaves the optimizer's state "
                    "in the weights' precision and place."
                )
        if self.attention == "flash" and self.dtype == "fp32":
            raise ValueError(
                "optim.attention=flash has no fp32: use optim.attention=auto, or optim.dtype=bf16 with a GPU."
            )
        return self


class Bias(Section):
    """Whether the coach is equally strict everywhere, and what is done about it (docs/coach.md)."""

    look_every: Annotated[int, Field(ge=0)] = 10
    """Training steps between two looks at the coach's scores, task family against family; 0: none."""
    window: Count = 2048
    """Newest episodes that a look considers, and scores of a stratum that a correction remembers: policies
    change."""
    correct: Literal["off", "mean", "mean_std"] = "off"
    """Bring scores to one ``mean``, or also to one standard deviation, over (task family, role, turn)."""
    kappa: Positive = 32.0
    """Scores that a stratum needs for its own statistics to count as much as those of all strata."""
    anchors: Annotated[int, Field(ge=0)] = 0
    """Episodes of the scripted faulty team whose actions are judged again and again: a coach call each."""
    anchors_every: Count = 10
    """Training steps between two times that the anchors are judged."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.anchors:
            from mappa_env.coach.drift import MIN_EPISODES

            if self.anchors < MIN_EPISODES:
                raise ValueError(
                    f"bias.anchors={self.anchors} can raise no alarm: use 0, or at least {MIN_EPISODES}."
                )
        return self
