"""The nouns of the learner: frozen records of token ids, rewards and batches. No text, no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Turn:
    """One action as the learner sees it.

    ``step`` is the action's index in its episode, ``turn`` its index among the agent's actions.
    ``context_ids`` are exactly what the engine consumed, ``action_ids`` exactly what it sampled, including a
    sampled end token. ``logprobs``: one natural logarithm per action id, under the sampling distribution
    (after temperature). ``reward`` is on the environment's scale (0-10). If ``valid`` is False, there is no
    reward and the action is never trained on. ``version`` counts the updates of the weights that sampled it.
    ``stopped`` is ``no_room`` where the context was too long for an action: nothing was asked or sampled.
    """

    agent: str
    policy: str
    step: int
    turn: int
    context_ids: list[int]
    action_ids: list[int]
    logprobs: list[float]
    stopped: Literal["eos", "length", "no_room"]
    reward: float
    valid: bool
    stratum: tuple[str, str, int]
    version: int = 0

    @property
    def passed(self) -> bool:
        """Whether the prompt left no room, so that the agent said nothing: no token, never trained on."""
        return self.stopped == "no_room"


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode. ``score`` in [0, 1]; ``metrics`` are those of the outcome.

    ``ended``: ``done``, ``timed_out`` or ``failed`` (an infrastructure failure, not the team's); no turn of
    the latter two is valid. ``answer`` is the team's final answer, if the environment has discrete answers.
    """

    turns: tuple[Turn, ...]
    task_id: str
    topic: str
    seed: int
    success: bool
    score: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    ended: Literal["done", "timed_out", "failed"] = "done"
    answer: str | None = None

    def with_rewards(self, rewards: Sequence[float], valid: Sequence[bool]) -> Rollout:
        """A copy whose turns have these rewards (0-10) and validity, one entry per turn.

        A turn that was passed is never valid.
        """
        turns = tuple(
            dataclasses.replace(turn, reward=reward, valid=ok and not turn.passed)
            for turn, reward, ok in zip(self.turns, rewards, valid, strict=True)
        )
        return dataclasses.replace(self, turns=turns)

    def failed(self) -> Rollout:
        """A copy that is masked because of an infrastructure failure: no turn has a valid reward."""
        count = len(self.turns)
        return dataclasses.replace(self.with_rewards([0.0] * count, [False] * count), ended="failed")


@dataclass(frozen=True, slots=True)
class Span:
    """One action in a sample: token positions ``[start, end)``, its reward, and its step in the episode.

    ``stratum`` is (task family, role, turn); ``truncated``: cut at the length limit.
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
    """One training sequence of one agent: all its turns, or a part of them in which contexts only grow.

    ``ids`` [T]; ``action_mask`` [T], True on sampled tokens; ``logprobs`` [T], the sampler's, 0 elsewhere;
    ``spans`` in order, covering the mask exactly. ``part`` counts the agent's samples from 0; it is above 0
    after a context that did not extend the previous one (a template that strips earlier thinking). ``group``
    is the task, within which algorithms compare episodes; ``episode`` is the episode's index in the batch.
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


@dataclass(frozen=True, slots=True, eq=False)
class PackedBatch:
    """Several sequences laid end to end: N tokens in S segments, of which M are scored.

    ``ids``, ``position_ids`` [N] (positions restart in every segment); ``cu_seqlens`` [S+1]: segment ``i`` is
    ``cu_seqlens[i]:cu_seqlens[i+1]``; ``targets`` [M]: the scored tokens; ``rows`` [M]: positions in the N
    that predict them, one before the token itself. The other arrays [M] belong to the targets: ``logprobs``
    of the old policy and of the ``reference`` (0 without one), ``advantages``, ``weights``, the ``shares`` of
    the loss, ``actions``, the index of the token's action in the batch (only for tokens of actions), and for
    a critic the old ``values`` and the ``returns`` (0 without one).
    """

    ids: Ints
    position_ids: Ints
    cu_seqlens: NDArray[np.int32]
    rows: Ints
    targets: Ints
    logprobs: Floats
    advantages: Floats
    weights: Floats
    shares: Floats
    reference: Floats
    actions: Ints
    values: Floats
    returns: Floats

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Demonstrations:
    """Samples to imitate in addition to the reinforced ones; ``weights`` [T] each, ``coef`` of their term."""

    samples: Sequence[Sample]
    weights: Sequence[Floats]
    coef: float

    def pick(self, chosen: Sequence[int]) -> Demonstrations:
        """The chosen samples, in the order of ``chosen``."""
        return Demonstrations([self.samples[i] for i in chosen], [self.weights[i] for i in chosen], self.coef)


class StepStats(dict[str, float]):
    """Metrics by name, as plain floats. The function that returns them documents names and units."""
