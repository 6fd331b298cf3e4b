"""Rewards and the KL penalty, summed to returns: what most algorithms begin with.

With ``r_a`` the scaled, clipped reward of action ``a`` and ``kl_i = log pi_old(i) - log pi_ref(i)`` of its
tokens (the k1 estimate, action tokens only), the return at token ``t`` of action ``a`` is

    per_action:    G_t = r_a - beta * sum_{i >= t in a} kl_i
    return_to_go:  G_t = r_a - beta * sum_{i >= t in a} kl_i + gamma * G_{first token of the next action}

where the next action is the same agent's next in its stay. ``gamma`` thus counts actions: tokens inside an
action are not discounted, and tokens of the environment neither discount nor stop a return. An action without
a valid reward is 0 everywhere and adds nothing to earlier returns (though it is an action to ``gamma``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mappa_rl.algos.base import Algorithm
from mappa_rl.errors import ConfigError, ContextError
from mappa_rl.types import Floats, Sample, StepStats

MIN_VAR = 1e-8
"""Variances at or below this count as none."""


@dataclass(frozen=True, slots=True)
class Returns(Algorithm):
    """Settings. Rewards are multiplied by ``reward_scale``, then clipped; ``kl_coef`` is beta."""

    mode: Literal["per_action", "return_to_go"] = "per_action"
    gamma: float = 1.0
    reward_scale: float = 1.0
    reward_clip: float = 10.0
    kl_coef: float = 0.01

    def __post_init__(self) -> None:
        if self.mode not in ("per_action", "return_to_go"):
            raise ConfigError(f"mode={self.mode!r} is not offered; choose per_action or return_to_go.")
        if not 0 <= self.gamma <= 1 or self.kl_coef < 0 or self.reward_scale <= 0 or self.reward_clip <= 0:
            raise ConfigError(f"{self}: needs 0 <= gamma <= 1, kl_coef >= 0, reward scale and clip > 0.")

    @property
    def needs_reference(self) -> bool:
        return self.kl_coef > 0

    def paid(self, reward: float) -> float:
        """The reward, scaled and clipped."""
        return float(np.clip(self.reward_scale * reward, -self.reward_clip, self.reward_clip))

    def returns(
        self,
        samples: Sequence[Sample],
        kl: Sequence[NDArray[np.float64]],
        values: Sequence[Floats] | None = None,
        trust: float = 1.0,
    ) -> list[NDArray[np.float64]]:
        """``G`` [T] of every sample, 0 outside valid actions. ``kl`` [T]: only action tokens count.

        With a critic's ``values`` V [T], the next action counts ``trust * G + (1 - trust) * V``.
        """
        out = [np.zeros(len(sample)) for sample in samples]
        later = 0.0
        for i in reversed(range(len(samples))):
            sample = samples[i]
            for span in reversed(sample.spans):
                if span.valid:
                    part = slice(span.start, span.end)
                    penalty = self.kl_coef * kl[i][part][::-1].cumsum()[::-1]
                    out[i][part] = self.paid(span.reward) - penalty + later
                    later = out[i][span.start]
                    if values is not None:
                        later = trust * later + (1 - trust) * float(values[i][span.start])
                later = self.gamma * later if self.mode == "return_to_go" else 0.0
            if sample.part == 0:
                later = 0.0
            elif i == 0 or not _follows(samples[i - 1], sample):
                raise ContextError(
                    f"Sample {i} is part {sample.part} of a stay of {sample.agent}, but the previous part "
                    "does not precede it: keep samples in the order of merge_turns."
                )
        return out

    def reference_kl(
        self, samples: Sequence[Sample], reference: Sequence[Floats] | None
    ) -> list[NDArray[np.float64]]:
        """``kl`` [T] of every sample, 0 outside actions; all 0 without a reference, if none is needed."""
        if reference is None:
            if self.needs_reference:
                raise ConfigError(
                    f"kl_coef={self.kl_coef} needs the log-probs of a reference; pass them or set kl_coef=0."
                )
            return [np.zeros(len(sample)) for sample in samples]
        out = []
        for sample, logprobs in zip(samples, reference, strict=True):
            kl = np.where(sample.action_mask, sample.logprobs.astype(np.float64) - logprobs, 0.0)
            if not np.isfinite(kl).all():
                raise ContextError(f"The reference gives a token of {sample.agent} no finite log-prob.")
            out.append(kl)
        return out


def valid_tokens(sample: Sample) -> NDArray[np.bool_]:
    """[T], True on tokens of actions with a valid reward."""
    mask = np.zeros(len(sample), np.bool_)
    for span in sample.spans:
        mask[span.start : span.end] = span.valid
    return mask


def describe(samples: Sequence[Sample], values: NDArray[np.float64], drift: NDArray[np.float64]) -> StepStats:
    """Stats of one policy: ``reward`` (mean of valid actions, before scaling), ``return_mean``,
    ``return_std`` (over tokens), ``reference_kl`` (nats per token), ``actions``, ``invalid`` (actions),
    ``zero_variance`` (1.0: all returns are equal). ``values`` are returns of valid tokens, ``drift`` the kl
    of action tokens."""
    spans = [span for sample in samples for span in sample.spans]
    rewards = [span.reward for span in spans if span.valid]
    return StepStats(
        reward=float(np.mean(rewards)) if rewards else 0.0,
        return_mean=float(values.mean()) if len(values) else 0.0,
        return_std=float(values.std()) if len(values) else 0.0,
        actions=float(len(spans)),
        invalid=float(len(spans) - len(rewards)),
        zero_variance=float(values.var() <= MIN_VAR) if len(values) else 1.0,
        reference_kl=float(drift.mean()),
    )


def _follows(before: Sample, after: Sample) -> bool:
    return (before.policy, before.agent, before.part) == (after.policy, after.agent, after.part - 1)
