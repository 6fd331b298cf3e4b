"""PPO with a critic (arXiv 1707.06347) and generalised advantage estimation (arXiv 1506.02438).

Over the action tokens ``t`` of an agent's turns, with ``V_t`` the critic's value before token ``t`` and
``r_t`` the KL penalty of the token plus, on the last token of an action, its reward,

    delta_t = r_t + gamma_t V_{t+1} - V_t
    A_t     = delta_t + gamma_t lambda_t A_{t+1}         R_t = A_t + V_t, the critic's target

Discounting counts actions: ``gamma_t = lambda_t = 1`` inside an action, and ``gamma`` and ``gae_lambda``
where the agent's next action follows (0 in ``per_action``), whatever the environment said in between. The
first token of an action gets the same reward as its last one, and errors of the critic bias only the part
that comes from later actions. ``R`` is the return ``G`` of ``returns.py`` in which the next action counts
``lambda G + (1 - lambda) V``; with lambda 1 it is ``G``. Then, over all tokens of one policy's valid actions,

    A_t <- (A_t - mean) / sqrt(max(var, 1e-8))           with the biased variance.

The loss is ``algo.loss`` plus ``vf_coef`` times the clipped value loss of ``mappa_rl.learner.critic``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from mappa_rl.algos.base import Advantages, CriticAlgorithm
from mappa_rl.algos.returns import MIN_VAR, Returns, describe, selected, valid_tokens
from mappa_rl.errors import ConfigError
from mappa_rl.types import Floats, Sample


@dataclass(frozen=True, slots=True)
class PPO(Returns, CriticAlgorithm):
    """Settings: those of ``Returns``, ``gae_lambda``, ``vf_coef`` and ``value_clip``.

    ``value_clip`` is on the scale of scaled rewards; 0 switches it off.
    """

    gae_lambda: float = 1.0
    vf_coef: float = 0.5
    value_clip: float = 0.2

    def __post_init__(self) -> None:
        Returns.__post_init__(self)
        if not (0 <= self.gae_lambda <= 1 and 0 < self.vf_coef < inf and 0 <= self.value_clip < inf):
            raise ConfigError(
                f"{self}: gae_lambda must be within [0, 1], vf_coef above 0 and value_clip at least 0."
            )
        if self.mode == "per_action" and self.gae_lambda != 1:
            raise ConfigError(
                f"gae_lambda={self.gae_lambda} weights later actions, and mode=per_action has none; set "
                "algo.mode=return_to_go, or gae_lambda=1."
            )

    def token_advantages(
        self,
        samples: Sequence[Sample],
        reference: Sequence[Floats] | None = None,
        values: Sequence[Floats] | None = None,
    ) -> Advantages:
        """See ``CriticAlgorithm.token_advantages``.

        The stats are those of ``describe`` for ``R``, and ``explained_variance``: 1 - var(R - V) / var(R).
        """
        if values is None:
            raise ConfigError("algo.name=ppo needs the critic's values; pass them as values=.")
        kl = self.reference_kl(samples, reference)
        returns = self.returns(samples, kl, values, self.gae_lambda)
        masks = [valid_tokens(sample) for sample in samples]
        errors = [(r - v) * m for r, v, m in zip(returns, values, masks, strict=True)]
        advantages = [np.zeros(len(sample), np.float32) for sample in samples]
        targets, raw = selected(returns, masks), selected(errors, masks)
        mean, var = (raw.mean(), raw.var()) if len(raw) else (0.0, 0.0)
        for out, error, mask in zip(advantages, errors, masks, strict=True):
            out[mask] = ((error - mean) / np.sqrt(max(var, MIN_VAR)))[mask]
        stats = describe(samples, targets, kl)
        if len(raw) and targets.var() > MIN_VAR:
            stats["explained_variance"] = float(1 - var / targets.var())
        weights = [mask.astype(np.float32) for mask in masks]
        return Advantages(advantages, weights, stats, [r.astype(np.float32) for r in returns])
