"""The learner's optimizer."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from mappa_rl.config.base import AUTO, Count, Fraction, NotNegative, Positive, Section
from mappa_rl.config.bf16 import fast_bf16


class Optim(Section):
    """The learner's optimizer (AdamW), one per policy."""

    lr: Positive = 3e-4
    """Peak learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning-rate schedule after the warmup, over all training steps."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps of linear warmup."""
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Warmup as a fraction of all optimizer steps, rounded up; replaces ``warmup_steps``."""
    min_lr_ratio: Fraction = 0.0
    """Final learning rate of ``linear`` and ``cosine``, as a fraction of ``lr``."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    """AdamW's two betas."""
    weight_decay: NotNegative = 0.0
    """AdamW's weight decay."""
    grad_clip: Positive = 1.0
    """Maximum norm of a policy's gradient; larger ones are scaled down."""
    max_skipped_updates: Annotated[int, Field(ge=0)] = 3
    """Updates in a row that may be skipped because their gradient is not finite; one more ends the run."""
    epochs: Count = 1
    """Passes over a step's episodes."""
    minibatches: Count = 2
    """Optimizer steps per pass, each on a random part of the samples."""
    tokens_per_micro_batch: Count = 8192
    """Maximum tokens in one forward pass; changes memory and speed, never the gradient."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """Precision of weights and gradients; ``bf16`` keeps fp32 weights for the optimizer (ZeRO 1 or 2)."""
    autocast: Annotated[bool, AUTO] = False
    """Keep weights in fp32, compute products in bf16: twice as fast on processors with bf16 instructions, and
    far slower on others. ``auto``: true where it is fast; a run's config names what was chosen."""
    attention: Literal["auto", "sdpa", "flash"] = "auto"
    """Attention kernel of the learner: ``sdpa`` runs everywhere, ``flash`` needs ``dtype: bf16`` and a GPU;
    ``auto`` uses flash if it runs."""
    gradient_checkpointing: bool = False
    """Keep only the inputs of decoder layers, and recompute the rest in the backward pass."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """DeepSpeed's ZeRO stage."""
    offload: bool = False
    """Keep the optimizer's state in main memory (ZeRO 1 or 2)."""

    def warmup(self, updates: int) -> int:
        """Optimizer steps of warmup, out of ``updates``."""
        return self.warmup_steps or math.ceil(self.warmup_ratio * updates)

    @field_validator("autocast", mode="before")
    @classmethod
    def _chosen(cls, value: Any) -> Any:
        return fast_bf16() if value == AUTO else value

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.warmup_steps and self.warmup_ratio:
            raise ValueError(
                f"optim.warmup_steps={self.warmup_steps} and optim.warmup_ratio={self.warmup_ratio:g} say "
                "the same thing twice: set one of them to 0."
            )
        if self.min_lr_ratio and self.schedule == "constant":
            raise ValueError(
                f"optim.min_lr_ratio={self.min_lr_ratio:g} has no effect with optim.schedule=constant: "
                "choose linear or cosine, or set it to 0."
            )
        return self

    @model_validator(mode="after")
    def _zero(self) -> Self:
        for asked, key in ((self.dtype == "bf16", "dtype=bf16"), (self.offload, "offload=true")):
            if asked and self.zero_stage == 0:
                raise ValueError(
                    f"optim.{key} needs optim.zero_stage of 1 or 2: at stage 0 the optimizer's state has the "
                    "precision and the device of the weights."
                )
        if self.autocast and self.dtype == "bf16":
            raise ValueError(
                "optim.autocast=true is for fp32 weights, and with optim.dtype=bf16 all is in bf16 already: "
                "set one of them back."
            )
        if self.attention == "flash" and self.dtype == "fp32":
            raise ValueError(
                "optim.attention=flash does not support fp32: use optim.attention=auto, or optim.dtype=bf16 "
                "with a GPU."
            )
        return self
