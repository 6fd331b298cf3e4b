"""The nouns of the learner: frozen records of token ids, rewards and batches. No text, no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mappa_rl.errors import ContextError

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Turn:
    """One action as the learner sees it.

    ``step`` is the action's index in its episode, ``turn`` its index in the agent's stay. ``context_ids`` are
    exactly what the engine consumed, ``action_ids`` exactly what it sampled, with the end token if that was
    sampled. ``logprobs``: one natural logarithm per action id, under the distribution sampled from (after
    temperature). ``reward`` is on the environment's scale (0-10); where ``valid`` is False there is none and
    the action is never trained on. ``version`` counts the updates of the weights that sampled it.
    """

    agent: str
    policy: str
    step: int
    turn: int
    context_ids: list[int]
    action_ids: list[int]
    logprobs: list[float]
    stopped: Literal["eos", "length"]
    reward: float
    valid: bool
    stratum: tuple[str, str, int]
    version: int = 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode. ``score`` in [0, 1]; ``metrics`` are those of the outcome.

    ``ended``: ``over`` (by itself), ``overdue`` (its time was up) or ``failed`` (by the infrastructure, not
    by the team); of these two no turn is valid. ``answer`` is the final answer where the environment has a
    discrete one and the team gave it.
    """

    turns: tuple[Turn, ...]
    task_id: str
    topic: str
    seed: int
    success: bool
    score: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    ended: Literal["over", "overdue", "failed"] = "over"
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """One action in a sample: token positions ``[start, end)``, its reward, and its step in the episode.

    ``stratum`` is (task family, role, turn in the stay); ``truncated``: cut at the length limit.
    """

    start: int
    end: int
    reward: float
    valid: bool
    step: int = 0
    stratum: tuple[str, str, int] = ("", "", 0)
    truncated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One training sequence of one policy: a stay, or the part of a stay in which contexts only grow.

    ``ids`` [T]; ``action_mask`` [T], True on sampled tokens; ``logprobs`` [T], the sampler's, 0 elsewhere;
    ``spans`` in order, covering the mask exactly. ``part`` counts the samples of one stay from 0: it is above
    0 where the context stopped extending the past (a template that strips earlier thinking). ``group`` is the
    task, which algorithms compare episodes within; ``episode`` is the episode's index in the batch.
    """

    ids: Ints
    action_mask: Bools
    logprobs: Floats
    spans: tuple[Span, ...]
    policy: str
    agent: str
    part: int = 0
    group: str = ""
    episode: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def check(self) -> Sample:
        """Return the sample itself if its fields agree with each other; raises ``ContextError``."""
        where = f"sample of {self.agent} (policy {self.policy})"
        size = len(self.ids)
        for name in ("action_mask", "logprobs"):
            if getattr(self, name).shape != (size,):
                raise ContextError(f"{where}: {name} has shape {getattr(self, name).shape}, not ({size},).")
        covered, last = np.zeros(size, np.bool_), 1
        for span in self.spans:
            if not last <= span.start < span.end <= size:
                raise ContextError(f"{where}: {span} needs {last} <= start < end <= {size}, a context first.")
            if span.valid and not np.isfinite(span.reward):
                raise ContextError(f"{where}: {span} is valid but its reward is not finite.")
            covered[span.start : span.end], last = True, span.end
        if not self.spans or not np.array_equal(covered, self.action_mask):
            raise ContextError(f"{where}: spans cover other tokens than action_mask marks.")
        inside = self.logprobs[self.action_mask]
        if not (np.isfinite(inside).all() and (inside <= 0).all()) or self.logprobs[~self.action_mask].any():
            raise ContextError(f"{where}: logprobs must be finite, at most 0, and 0 outside of actions.")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class PackedBatch:
    """Several sequences laid end to end: N tokens in S segments, of which M are scored.

    ``ids``, ``position_ids`` [N] (positions restart in every segment); ``cu_seqlens`` [S+1]: segment ``i``
    is ``cu_seqlens[i]:cu_seqlens[i+1]``; ``rows`` [M]: where in the N a scored token is predicted, one before
    the token itself; ``targets`` [M]: the scored tokens. The others [M] belong to the targets: ``logprobs``
    of the old policy and of the ``reference`` (0 where there is none), ``advantages``, ``weights`` in the
    loss, ``actions``: which action of the batch a token is of (only for tokens of actions), and for a critic
    the old ``values`` and the ``returns`` (0 without one).
    """

    ids: Ints
    position_ids: Ints
    cu_seqlens: NDArray[np.int32]
    rows: Ints
    targets: Ints
    logprobs: Floats
    advantages: Floats
    weights: Floats
    reference: Floats
    actions: Ints
    values: Floats
    returns: Floats

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Demonstrations:
    """Samples to imitate beside the reinforced ones; ``weights`` [T] each, ``coef`` of their term."""

    samples: Sequence[Sample]
    weights: Sequence[Floats]
    coef: float


class StepStats(dict[str, float]):
    """Metrics by name, plain floats. Whoever fills it documents the names and units."""
