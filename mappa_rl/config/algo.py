"""From rewards to advantages to the loss."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from mappa_rl.config.base import Count, Fraction, NotNegative, Positive, Section

CLIPS: dict[str, tuple[float, float | None]] = {
    "ppo": (0.2, None),
    "gspo": (3e-4, 4e-4),
    "cispo": (1.0, 4.0),
}
"""Loss -> its published ``clip_low`` and ``clip_high``: PPO (arXiv 1707.06347), GSPO (2507.18071), and CISPO
(2506.13585, no lower bound) with the upper bound 5 of ScaleRL (2510.13786). A loss of your own has its
own."""


class Algo(Section):
    """From rewards to advantages to the loss."""

    name: str = "reinforce_pp"
    """The algorithm: its name, or a class of your own as ``path/mine.py:Class``."""
    options: dict[str, Any] = {}
    """Further settings of this algorithm, for example ``omega: 0.5`` for gigpo."""
    mode: Literal["per_action", "return_to_go"] = "per_action"
    """Return of an action: ``per_action``, its own reward; ``return_to_go``, plus its agent's later ones."""
    gamma: Fraction = 1.0
    """Discount per action (only for ``return_to_go``)."""
    reward_scale: Positive = 0.1
    """Factor on rewards (0-10), applied first."""
    reward_clip: Positive = 10.0
    """Scaled rewards are clipped to plus and minus this."""
    kl_coef: NotNegative = 0.01
    """Weight of the KL penalty, per token; its reference is the model at the start of training."""
    kl: Literal["reward", "loss_k2", "loss_k3"] = "reward"
    """Whether the KL penalty is part of the reward (estimator k1) or of the loss (k2 or k3)."""
    mask_truncated: bool = False
    """Do not train on actions that reached ``rollout.max_new_tokens``."""
    overlong_penalty: NotNegative = 0.0
    """Penalty on the reward (0-10) of an action that reaches ``rollout.max_new_tokens``; 0: none."""
    overlong_buffer: Count = 16
    """Tokens below that limit over which the overlong penalty rises from 0."""
    drop_zero_variance_groups: bool = False
    """Do not train on an agent's actions on a task if all their rewards are equal; needs groups."""
    loss: str = "ppo"
    """The loss: ``ppo``, ``gspo``, ``cispo``, or a class of your own as ``path/mine.py:Class``."""
    loss_options: dict[str, Any] = {}
    """Further settings of a loss of your own."""
    aggregation: Literal["token", "sequence", "constant"] = "token"
    """Loss of a minibatch: ``token``, the mean over its tokens; ``sequence``, the mean over its actions of
    their tokens' means; ``constant``, that of their tokens' sums, divided by ``rollout.max_new_tokens``."""
    entropy_coef: NotNegative = 0.0
    """Weight of the entropy bonus, the policy's entropy per token, in the loss."""
    clip_low: Positive | None = None
    """Lower side of the probability ratio's clip range [1 - clip_low, 1 + clip_high]; null: as published for
    the loss (``ppo`` 0.2, ``gspo`` 3e-4, ``cispo`` 1, which is no bound)."""
    clip_high: Positive | None = None
    """Upper side of the clip range, as in DAPO; null: the same as ``clip_low``, or if that is null too, as
    published for the loss (``ppo`` 0.2, ``gspo`` 4e-4, ``cispo`` 4)."""
    dual_clip: NotNegative = 0.0
    """Bound (above 1) on the ratio for negative advantages (only ``ppo``); 0: none."""
    importance_sampling: Literal["none", "tis", "icepop"] = "none"
    """Importance weights for the sampler-learner mismatch: truncated (``tis``) or masked (``icepop``)."""
    importance_bounds: tuple[NotNegative, Positive] = (0.5, 5.0)
    """Lower and upper bound of the importance weights, below and above 1."""

    @field_validator("kl", mode="before")
    @classmethod
    def _no_coefficient(cls, value: Any) -> Any:
        """``kl`` is a coefficient in other trainers."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            raise ValueError(f"choose reward, loss_k2 or loss_k3; set its weight with algo.kl_coef={value}")
        return value

    @model_validator(mode="after")
    def _published_clips(self) -> Self:
        """Fill in what is not set. It still counts as not set: another loss replaces it."""
        if self.clip_low is None and self.loss in CLIPS:
            low, high = CLIPS[self.loss]
            object.__setattr__(self, "clip_low", low)
            if self.clip_high is None:
                object.__setattr__(self, "clip_high", high)
        return self

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.dual_clip and self.dual_clip <= 1:
            raise ValueError(f"algo.dual_clip={self.dual_clip:g} must be above 1, or 0 for none; try 3.")
        low, high = self.importance_bounds
        if not low < 1 < high:
            raise ValueError(
                f"algo.importance_bounds=[{low:g}, {high:g}] must lie on both sides of 1, as [0.5, 5.0] does."
            )
        return self
