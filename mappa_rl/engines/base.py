"""Generation: token ids in, token ids and log-probabilities out. Engines know nothing of text or chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue.

    ``ids`` is the prompt (at least one token); ``max_tokens`` bounds the new tokens (>= 1); ``temperature``
    0 means greedy; ``stop_ids`` end the generation. The draw depends on ``seed`` (>= 0) and the prompt alone,
    never on the other requests of a batch (up to the rounding of the forward pass).
    """

    ids: Sequence[int]
    seed: int
    max_tokens: int
    temperature: float = 1.0
    stop_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """What was sampled. ``ids`` includes the stop token when ``stopped == "eos"``.

    ``logprobs`` are natural logarithms under the distribution sampled from, so after temperature (fp32
    log-softmax, no truncation of the tail); for greedy requests they are those at temperature 1.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: Literal["eos", "length"]


@runtime_checkable
class Engine(Protocol):
    """A sampler of one policy. ``version`` counts weight updates; ``max_len`` bounds prompt plus reply."""

    version: int
    max_len: int

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """Continue every request; answers come in the order of the requests. Raises ``EngineError``."""
        ...

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """Take the learner's weights; ``version`` defaults to one more than the current."""
        ...
