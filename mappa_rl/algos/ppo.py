"""PPO with a critic (arXiv 1707.06347) and generalised advantage estimation (arXiv 1506.02438).

Over the action tokens ``t`` of an agent's stay, with ``V_t`` the critic's value before token ``t``, ``r_t``
the KL penalty of the token and, on the last token of an action, its reward,

    delta_t = r_t + gamma_t V_{t+1} - V_t
    A_t     = delta_t + gamma_t lambda_t A_{t+1}         R_t = A_t + V_t, what the critic should have said

As everywhere here, time is counted in actions: ``gamma_t = lambda_t = 1`` inside an action, and ``gamma``
and ``gae_lambda`` where the agent's next action follows (0 in ``per_action``), whatever the environment said
in between. A reward thus reaches the first token of its action as it reaches the last one, however long the
action is, and a critic that errs biases only what comes from later actions. So ``R`` is the return ``G`` of
``returns.py`` in which the next action counts ``lambda G + (1 - lambda) V``; with lambda 1 it is ``G``. Then
per policy, over all tokens of valid actions,

    A_t <- (A_t - mean) / sqrt(max(var, 1e-8))           with the biased variance.

The loss is ``algo.loss`` plus ``vf_coef`` times the clipped value loss of ``mappa_rl.critic``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mappa_rl.algos.base import Credit, CriticAlgorithm, register
from mappa_rl.algos.returns import MIN_VAR, Returns, describe, valid_tokens
from mappa_rl.errors import ConfigError
from mappa_rl.types import Floats, Sample


@register("ppo")
@dataclass(frozen=True, slots=True)
class PPO(Returns, CriticAlgorithm):
    """Settings: those of ``Returns``; ``gae_lambda``; ``vf_coef``; ``value_clip``, on the scale of scaled
    rewards (0: none)."""

    gae_lambda: float = 1.0
    vf_coef: float = 0.5
    value_clip: float = 0.2

    def __post_init__(self) -> None:
        Returns.__post_init__(self)
        if not 0 <= self.gae_lambda <= 1 or self.vf_coef <= 0 or self.value_clip < 0:
            raise ConfigError(f"{self}: needs 0 <= gae_lambda <= 1, vf_coef > 0, value_clip >= 0.")
        if self.mode == "per_action" and self.gae_lambda != 1:
            raise ConfigError(
                f"gae_lambda={self.gae_lambda} weighs later actions, and mode=per_action has none: use "
                "algo.mode=return_to_go, or gae_lambda=1."
            )

    def credit(
        self,
        samples: Sequence[Sample],
        reference: Sequence[Floats] | None = None,
        values: Sequence[Floats] | None = None,
    ) -> Credit:
        """Stats as ``describe`` has them for ``R``, and ``explained_variance``: 1 - var(R - V) / var(R)."""
        if values is None:
            raise ConfigError("algo.name=ppo compares returns with a critic's values: pass them.")
        kl = self.reference_kl(samples, reference)
        returns = self.returns(samples, kl, values, self.gae_lambda)
        masks = [valid_tokens(sample) for sample in samples]
        errors = [(r - v) * m for r, v, m in zip(returns, values, masks, strict=True)]
        advantages = [np.zeros(len(sample), np.float32) for sample in samples]
        stats = {}
        for policy in sorted({sample.policy for sample in samples}):
            own = [i for i, sample in enumerate(samples) if sample.policy == policy]
            targets, raw = (np.concatenate([x[i][masks[i]] for i in own]) for x in (returns, errors))
            mean, var = (raw.mean(), raw.var()) if len(raw) else (0.0, 0.0)
            for i in own:
                advantages[i][masks[i]] = ((errors[i] - mean) / np.sqrt(max(var, MIN_VAR)))[masks[i]]
            drift = np.concatenate([kl[i][samples[i].action_mask] for i in own])
            stats[policy] = describe([samples[i] for i in own], targets, drift)
            if len(raw) and targets.var() > MIN_VAR:
                stats[policy]["explained_variance"] = float(1 - var / targets.var())
        weights = [mask.astype(np.float32) for mask in masks]
        return Credit(advantages, weights, stats, [r.astype(np.float32) for r in returns])
