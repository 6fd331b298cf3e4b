"""The critic of a policy: a value head on the policy's own hidden states, and the loss it learns with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mappa_rl.learner.losses import Loss
from mappa_rl.types import Floats


class ValueHead(nn.Module):
    """``V = w h + b`` on the decoder's last hidden state ``h``, in fp32; 0 at the start.

    The policy's trunk learns from both losses: features that only predict the next token say little about
    returns, and a separate critic would cost a second model and a second pass. Because the head starts at 0,
    its first update does not move the trunk.
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

    PPO's clipped value loss; ``old`` are the critic's values before the update, from which the targets ``R``
    were computed. It is in the authors' code, not in the paper (studied in arXiv 2005.12729). ``clip`` 0
    drops the second term.
    """

    coef: float
    clip: float

    def __call__(
        self, values: Tensor, old: Tensor, returns: Tensor, weights: Tensor, *, total: float
    ) -> Loss:
        """Tensors [M]. Sums: ``value_loss`` (before ``coef``), ``value_clip_fraction``."""
        error = (values - returns).square()
        cut = torch.zeros_like(error, dtype=torch.bool)
        if self.clip:
            bound = (old + (values - old).clamp(-self.clip, self.clip) - returns).square()
            cut = ((values - old).abs() > self.clip) & (bound > error)  # rounding alone does not count
            error = torch.where(cut, bound, error)
        loss = (error * weights).sum() / 2
        sums = {"value_loss": loss.detach(), "value_clip_fraction": (cut * weights).sum()}
        return Loss(self.coef * loss / total, sums)


@dataclass(frozen=True, slots=True, eq=False)
class ValueTargets:
    """What a critic learns from, per sample [T].

    ``values``: its values before the update; ``returns``: their targets.
    """

    values: Sequence[Floats]
    returns: Sequence[Floats]
    loss: ValueLoss

    def pick(self, chosen: Sequence[int]) -> ValueTargets:
        """The targets of the chosen samples, in the order of ``chosen``."""
        return ValueTargets([self.values[i] for i in chosen], [self.returns[i] for i in chosen], self.loss)
