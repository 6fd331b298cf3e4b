"""The critic of a policy: a value head on the policy's own hidden states, and the loss it learns with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mappa_rl.losses import Loss
from mappa_rl.types import Floats


class ValueHead(nn.Module):
    """``V = w h + b`` on the decoder's last hidden state ``h``, in fp32; begins as 0 everywhere.

    The trunk is the policy's and learns from both losses: what predicts the next token alone says little of
    what the action will be paid, and a critic apart would cost a second model and a second pass. As the head
    begins at 0, its first update leaves the trunk to the policy's loss.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        config: Any = model.config
        like = next(model.parameters())
        width = config.get_text_config().hidden_size
        self.weight = nn.Parameter(torch.zeros(width, dtype=like.dtype, device=like.device))
        self.bias = nn.Parameter(torch.zeros(1, dtype=like.dtype, device=like.device))

    def forward(self, hidden: Tensor) -> Tensor:
        """[M, width] -> [M]."""
        return F.linear(hidden.float(), self.weight.float()[None], self.bias.float())[:, 0]


@dataclass(frozen=True, slots=True)
class ValueLoss:
    """``coef / (2 total) sum_t w_t max((V_t - R_t)^2, (clip(V_t, old_t - clip, old_t + clip) - R_t)^2)``.

    PPO's clipped value loss: ``old`` are the values that the targets ``R`` were made with. It is in the
    authors' code, not in the paper (arXiv 2005.12729 looks into it). ``clip`` 0: without the second term.
    """

    coef: float = 0.5
    clip: float = 0.2

    def __call__(
        self, values: Tensor, old: Tensor, returns: Tensor, weights: Tensor, *, total: float
    ) -> Loss:
        """Tensors [M]. Sums: ``value_loss`` (before ``coef``), ``value_clip_fraction``."""
        error = (values - returns).square()
        cut = torch.zeros_like(error, dtype=torch.bool)
        if self.clip:
            bound = (old + (values - old).clamp(-self.clip, self.clip) - returns).square()
            cut = ((values - old).abs() > self.clip) & (bound > error)  # rounding alone is no cut
            error = torch.where(cut, bound, error)
        loss = (error * weights).sum() / 2
        sums = {"value_loss": loss.detach(), "value_clip_fraction": (cut * weights).sum()}
        return Loss(self.coef * loss / total, sums)


@dataclass(frozen=True, slots=True, eq=False)
class Criticism:
    """What a critic learns from, per sample [T]: its ``values`` before the update, and the ``returns`` that
    they should have been."""

    values: Sequence[Floats]
    returns: Sequence[Floats]
    loss: ValueLoss
