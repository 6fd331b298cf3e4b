"""Generation: token ids in, token ids and log-probabilities out. Engines do not handle text or chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from mappa_rl.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mappa_rl.engines.weights.base import SyncStats


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue.

    ``ids`` is the prompt (at least one token); ``max_tokens`` bounds the new tokens (>= 1); ``temperature``
    0 means greedy; ``top_p`` below 1 keeps the most likely tokens of that total probability (evaluation only:
    training needs the whole distribution); ``stop_ids`` end the generation. The sample depends only on
    ``seed`` (>= 0) and the prompt, not on the other requests of a batch (up to rounding in the forward pass).
    Without a seed it cannot be repeated. ``episode`` names the episode that it belongs to (empty: none): one
    replica of an engine answers all requests of an episode.
    """

    ids: Sequence[int]
    seed: int | None
    max_tokens: int
    temperature: float
    stop_ids: tuple[int, ...]
    top_p: float
    episode: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """The sampled tokens. ``ids`` includes the stop token when ``stopped == "eos"``.

    ``logprobs`` are natural logarithms under the sampling distribution, after temperature (fp32 log-softmax)
    and ``top_p``; greedy requests report those at temperature 1. ``abort``: the request was aborted, and
    ``ids`` holds the tokens so far. ``version`` is the version of the weights that sampled the first token.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: Literal["eos", "length", "abort"]
    version: int = field(default=0, compare=False)


@runtime_checkable
class Engine(Protocol):
    """A sampler of one policy. ``version`` counts weight updates; ``max_len`` bounds prompt plus reply.

    Methods may be called from any thread.
    """

    version: int
    max_len: int
    last_sync: SyncStats | None
    """Cost of the last ``load_weights``; None if nothing had to be sent."""

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """Continue every request; answers come in the order of the requests. Raises ``EngineError``."""
        ...

    def submit(self, request: Request) -> Future[Generation]:
        """Continue one request in parallel with all others; the future raises ``EngineError``."""
        ...

    def abort(self) -> None:
        """End every running request; each returns its tokens so far with ``stopped="abort"``."""
        ...

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """Take the learner's weights; ``version`` defaults to one more than the current.

        Running requests continue, with the new weights or with the old ones.
        """
        ...

    def sleep(self) -> None:
        """Free the accelerator's memory until ``wake``; no request may be running."""
        ...

    def wake(self) -> None:
        """Allocate memory for weights after ``sleep``; they, and the rest, come with ``load_weights``."""
        ...

    def close(self) -> None:
        """Abort running requests and free everything."""
        ...


def room_for(request: Request, max_len: int) -> int:
    """Number of tokens that ``request`` may get within ``max_len``. Raises ``EngineError`` if invalid."""
    room = max_len - len(request.ids)
    if not len(request.ids) or room < 1:
        raise EngineError(
            f"A prompt of {len(request.ids)} tokens cannot be continued within {max_len} tokens; "
            "shorten the prompt or use a model with a longer context."
        )
    if request.max_tokens < 1 or not request.temperature >= 0 or not 0 < request.top_p <= 1:
        raise EngineError(
            f"max_tokens={request.max_tokens} must be >= 1, temperature={request.temperature} >= 0 and "
            f"top_p={request.top_p} in (0, 1]."
        )
    return min(request.max_tokens, room)
