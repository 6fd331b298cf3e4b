"""Generation: token ids in, token ids and log-probabilities out. Engines know nothing of text or chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from mappa_rl.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mappa_rl.sync import SyncStats


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue.

    ``ids`` is the prompt (at least one token); ``max_tokens`` bounds the new tokens (>= 1); ``temperature``
    0 means greedy; ``top_p`` below 1 keeps the most likely tokens of that total probability (evaluation only:
    training needs the whole distribution); ``stop_ids`` end the generation. The draw depends on ``seed``
    (>= 0) and the prompt alone, never on the other requests of a batch (up to the forward pass's rounding).
    """

    ids: Sequence[int]
    seed: int
    max_tokens: int
    temperature: float = 1.0
    stop_ids: tuple[int, ...] = ()
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Generation:
    """What was sampled. ``ids`` includes the stop token when ``stopped == "eos"``.

    ``logprobs`` are natural logarithms under the distribution sampled from, so after temperature (fp32
    log-softmax) and ``top_p``; for greedy requests they are those at temperature 1. ``abort``: the engine was
    told to stop, ``ids`` is what there was. ``version`` is that of the weights that sampled the first token.
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
    """What the last ``load_weights`` sent; None where nothing had to be sent."""

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """Continue every request; answers come in the order of the requests. Raises ``EngineError``."""
        ...

    def submit(self, request: Request) -> Future[Generation]:
        """Continue one request beside all others; ``EngineError`` comes out of the future."""
        ...

    def abort(self) -> None:
        """End every request under way; each answers with ``stopped="abort"`` and what it has."""
        ...

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """Take the learner's weights; ``version`` defaults to one more than the current.

        Requests under way go on, with the new weights or with the old.
        """
        ...

    def sleep(self) -> None:
        """Give the accelerator's memory back until ``wake``; nothing may be under way."""
        ...

    def wake(self) -> None:
        """Be ready again after ``sleep``; weights are those of the next ``load_weights``."""
        ...

    def close(self) -> None:
        """Free everything. Requests under way are aborted."""
        ...


def room_for(request: Request, max_len: int) -> int:
    """How many tokens ``request`` may have within ``max_len``; ``EngineError`` for what is no request."""
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
