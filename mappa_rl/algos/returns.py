"""Returns: rewards and the KL penalty, summed over an agent's actions. Most algorithms start from them.

With ``r_a`` the scaled, clipped reward of action ``a`` and ``kl_i = log pi_old(i) - log pi_ref(i)`` of its
tokens (the k1 estimate, action tokens only), the return at token ``t`` of action ``a`` is

    per_action:    G_t = r_a - beta * sum_{i >= t in a} kl_i
    return_to_go:  G_t = r_a - beta * sum_{i >= t in a} kl_i + gamma * G_{first token of the next action}

where the next action is the same agent's next in its episode. ``gamma`` thus applies once per action: tokens
inside an action are not discounted, and tokens of the environment neither discount nor stop a return. An
action without a valid reward is 0 everywhere and adds nothing to earlier returns, but ``gamma`` counts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mappa_rl.algos.base import Algorithm
from mappa_rl.config import Algo
from mappa_rl.errors import ConfigError, ContextError
from mappa_rl.types import Floats, Sample, StepStats

_DEFAULT = Algo()
MIN_VAR = 1e-8
"""A variance at or below this counts as zero."""


@dataclass(frozen=True, slots=True)
class Returns(Algorithm):
    """Settings, with the defaults of the ``algo`` section.

    Rewards are multiplied by ``reward_scale``, then clipped; ``kl_coef`` is beta.
    """

    mode: Literal["per_action", "return_to_go"] = _DEFAULT.mode
    gamma: float = _DEFAULT.gamma
    reward_scale: float = _DEFAULT.reward_scale
    reward_clip: float = _DEFAULT.reward_clip
    kl_coef: float = _DEFAULT.kl_coef

    def __post_init__(self) -> None:
        if self.mode not in ("per_action", "return_to_go"):
            raise ConfigError(f"mode={self.mode!r} is unknown; choose per_action or return_to_go.")
        if not 0 <= self.gamma <= 1 or self.kl_coef < 0 or self.reward_scale <= 0 or self.reward_clip <= 0:
            raise ConfigError(
                f"{self}: gamma must be within [0, 1], kl_coef at least 0, "
                "reward_scale and reward_clip above 0."
            )

    @property
    def needs_reference(self) -> bool:
        """Whether the KL penalty is part of the return."""
        return self.kl_coef > 0

    def scaled(self, reward: float) -> float:
        """Scale the reward, then clip it."""
        return float(np.clip(self.reward_scale * reward, -self.reward_clip, self.reward_clip))

    def returns(
        self,
        samples: Sequence[Sample],
        kl: Sequence[NDArray[np.float64]],
        values: Sequence[Floats] | None = None,
        trust: float = 1.0,
    ) -> list[NDArray[np.float64]]:
        """Compute ``G`` [T] of every sample, 0 outside valid actions.

        Args:
            samples: In the order of ``merge_turns``.
            kl: ``kl_i`` [T] per sample; only action tokens count.
            values: A critic's values V [T] per sample.
            trust: With ``values``, the next action counts ``trust * G + (1 - trust) * V``.

        Raises:
            ContextError: A part of a segment does not follow the part before it.
        """
        out = [np.zeros(len(sample)) for sample in samples]
        later = 0.0
        for i in reversed(range(len(samples))):
            sample = samples[i]
            for span in reversed(sample.spans):
                if span.valid:
                    part = slice(span.start, span.end)
                    penalty = self.kl_coef * kl[i][part][::-1].cumsum()[::-1]
                    out[i][part] = self.scaled(span.reward) - penalty + later
                    later = out[i][span.start]
                    if values is not None:
                        later = trust * later + (1 - trust) * float(values[i][span.start])
                later = self.gamma * later if self.mode == "return_to_go" else 0.0
            if sample.part == 0:
                later = 0.0
            elif i == 0 or not _follows(samples[i - 1], sample):
                raise ContextError(
                    f"Sample {i} is part {sample.part} of a segment of {sample.agent}, but it does not "
                    f"follow part {sample.part - 1}; keep samples in the order of merge_turns."
                )
        return out

    def reference_kl(
        self, samples: Sequence[Sample], reference: Sequence[Floats] | None
    ) -> list[NDArray[np.float64]]:
        """Compute ``kl`` [T] of every sample, 0 outside actions, and 0 everywhere without a reference.

        Raises:
            ConfigError: The KL penalty needs a reference, and ``reference`` is None.
            ContextError: A token has no finite log-prob under the reference.
        """
        if reference is None:
            if self.needs_reference:
                raise ConfigError(
                    f"kl_coef={self.kl_coef} needs the log-probs of a reference; pass them, or set kl_coef=0."
                )
            return [np.zeros(len(sample)) for sample in samples]
        out = []
        for sample, logprobs in zip(samples, reference, strict=True):
            kl = np.where(sample.action_mask, sample.logprobs.astype(np.float64) - logprobs, 0.0)
            if not np.isfinite(kl).all():
                raise ContextError(
                    f"The reference model gives a token of {sample.agent} a log-prob that is not finite."
                )
            out.append(kl)
        return out


def valid_tokens(sample: Sample) -> NDArray[np.bool_]:
    """Mark the tokens of actions with a valid reward, as an array [T]."""
    mask = np.zeros(len(sample), np.bool_)
    for span in sample.spans:
        mask[span.start : span.end] = span.valid
    return mask


def selected(
    arrays: Sequence[NDArray[np.float64]], masks: Sequence[NDArray[np.bool_]]
) -> NDArray[np.float64]:
    """Concatenate the entries of ``arrays`` [T] where ``masks`` [T] are True, over all samples."""
    return np.concatenate([np.zeros(0), *(a[mask] for a, mask in zip(arrays, masks, strict=True))])


def describe(
    samples: Sequence[Sample], returns: NDArray[np.float64], kl: Sequence[NDArray[np.float64]]
) -> StepStats:
    """Summarise one policy's batch; a batch without samples has no stats.

    ``reward``: mean over valid actions, before scaling. ``return_mean``, ``return_std``: over tokens of valid
    actions. ``reference_kl``: nats per action token. ``actions``, ``invalid``: numbers of actions.
    ``zero_variance``: 1.0 where all returns are equal.

    Args:
        samples: All samples of the policy.
        returns: The returns of all tokens of valid actions.
        kl: ``kl_i`` [T] per sample.
    """
    if not samples:
        return StepStats()
    spans = [span for sample in samples for span in sample.spans]
    rewards = [span.reward for span in spans if span.valid]
    return StepStats(
        reward=float(np.mean(rewards)) if rewards else 0.0,
        return_mean=float(returns.mean()) if len(returns) else 0.0,
        return_std=float(returns.std()) if len(returns) else 0.0,
        actions=float(len(spans)),
        invalid=float(len(spans) - len(rewards)),
        zero_variance=float(returns.var() <= MIN_VAR) if len(returns) else 1.0,
        reference_kl=float(selected(kl, [sample.action_mask for sample in samples]).mean()),
    )


def _follows(before: Sample, after: Sample) -> bool:
    return (before.policy, before.agent, before.part) == (after.policy, after.agent, after.part - 1)
