"""The hf engine: a decode loop over a Hugging Face causal language model, on CPU or one GPU.

For models under about a million parameters on a CPU this is as fast as a serving engine, and it can share
the learner's module, so weights need no copying. It avoids ``.generate``, prepares one mask, writes the
key-value cache in place, and drops finished rows from the batch.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator, Philox
from torch import Tensor, nn

from mappa_rl.engines.base import Engine, Generation, Request, room_for
from mappa_rl.engines.hf.cache import ATTENTION, Cache, Filled
from mappa_rl.engines.hf.context import longest_text
from mappa_rl.engines.hf.queue import HF_MAX_BATCH, RequestQueue
from mappa_rl.engines.weights.base import SyncStats
from mappa_rl.errors import EngineError, EngineMemoryError
from mappa_rl.memory import is_out_of_memory

_SPARE = 64  # tokens of room the cache starts with beyond the prompts
_PREFILL = 1024  # tokens of one prefill slice


@dataclass(slots=True)
class _Batch:
    """The rows still in the batch; every field has one entry per row."""

    slot: Tensor
    lengths: Tensor
    limits: Tensor
    temperatures: Tensor
    top_p: Tensor
    uniforms: Tensor
    stops: Tensor
    alive: Tensor
    mask: Tensor

    @classmethod
    def of(cls, requests: Sequence[Request], limits: Sequence[int], like: Tensor) -> _Batch:
        """Build it on the device and in the dtype of ``like`` (a parameter)."""
        device, most = like.device, max(limits)
        # Prompts lie right-padded in the cache without their last token, which is the first one decoded.
        lengths = torch.tensor([len(r.ids) - 1 for r in requests], device=device)
        width = int(lengths.max())
        hidden = torch.arange(width + most, device=device)
        hidden = (hidden >= lengths[:, None]) & (hidden < width)
        mask = torch.zeros(hidden.shape, dtype=like.dtype, device=device)
        mask.masked_fill_(hidden, torch.finfo(like.dtype).min)
        # All uniforms of a request are drawn up front from its own stream: no draw depends on the neighbours.
        uniforms = np.zeros((len(requests), most))
        for row, (request, limit) in enumerate(zip(requests, limits, strict=True)):
            uniforms[row, :limit] = Generator(Philox(request.seed)).random(limit)
        widest = max(1, max(len(r.stop_ids) for r in requests))
        stops = [[*r.stop_ids, *[-1] * (widest - len(r.stop_ids))] for r in requests]
        return cls(
            slot=torch.arange(len(requests), device=device),
            lengths=lengths,
            limits=torch.tensor(limits, device=device),
            temperatures=torch.tensor([r.temperature for r in requests], device=device)[:, None],
            top_p=torch.tensor([r.top_p for r in requests], device=device)[:, None],
            uniforms=torch.from_numpy(uniforms).to(device),
            stops=torch.tensor(stops, device=device),
            alive=torch.ones(len(requests), dtype=torch.bool, device=device),
            mask=mask[:, None, None, :],
        )

    def keep(self, rows: Tensor) -> None:
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name)[rows])


def _draw(logits: Tensor, temperatures: Tensor, top_p: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Sample one token per row by inverting the cumulative distribution; return tokens and log-probs.

    The first token whose cumulative probability exceeds ``u * total`` has positive probability, whatever
    the rounding. Rows of temperature 0 take the most likely token.
    """
    greedy = temperatures == 0
    logprobs = F.log_softmax(logits / torch.where(greedy, 1.0, temperatures), dim=-1, dtype=torch.float32)
    if bool((top_p < 1).any()):
        logprobs = _nucleus(logprobs, torch.where(greedy, 1.0, top_p))
    cdf = logprobs.exp().cumsum(-1, dtype=torch.float64)
    total = cdf[:, -1:]
    aim = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cdf, aim, right=True)
    if bool(greedy.any()):
        tokens = torch.where(greedy, logits.argmax(-1, keepdim=True), tokens)
    return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]


def _nucleus(logprobs: Tensor, top_p: Tensor) -> Tensor:
    """Keep the fewest most likely tokens whose probabilities reach ``top_p``, and normalise again."""
    ranked, order = logprobs.sort(-1, descending=True)
    mass = ranked.exp().cumsum(-1)
    beyond = (mass - ranked.exp() >= top_p) & (top_p < 1)  # what came before already suffices
    return F.log_softmax(logprobs.masked_fill(beyond.scatter(-1, order, beyond), -torch.inf), -1)


def _ending(request: Request, ids: Sequence[int], limit: int) -> Literal["eos", "length", "abort"]:
    if ids and ids[-1] in request.stop_ids:
        return "eos"
    return "length" if len(ids) == limit else "abort"


class HFEngine:
    """Samples from ``model``, which may be the learner's own module (then ``load_weights`` copies nothing).

    ``max_batch`` bounds the rows of one forward pass; requests are sorted by length first, so that little is
    padding. Calls from several threads take turns; another thread must not train the same module meanwhile.
    ``max_len`` is at most the window of layers that have one; for what is refused see ``longest_text``.
    """

    def __init__(self, model: nn.Module, max_batch: int = HF_MAX_BATCH) -> None:
        if max_batch < 1:
            raise EngineError(f"max_batch={max_batch} must be at least 1.")
        self.model: Any = model
        self.max_batch = max_batch
        self.max_len = longest_text(self.model.config)
        self.version = 0
        self.last_sync: SyncStats | None = None
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._queue = RequestQueue(self.generate, max_batch)

    def submit(self, request: Request) -> Future[Generation]:
        """See ``Engine.submit``; batches are formed of what waits, so the rounding depends on the timing."""
        return self._queue.submit(request)

    def abort(self) -> None:
        """See ``Engine.abort``; the batch under way ends after the token it is at."""
        self._stop.set()
        self._queue.drop(self.version)
        with self._turn:
            self._stop.clear()

    def sleep(self) -> None:
        """Do nothing: the weights may be the learner's own, and there is no memory pool."""

    def wake(self) -> None:
        """See ``sleep``."""

    def close(self) -> None:
        """See ``Engine.close``."""
        self.abort()
        self._queue.close()

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """Copy the weights of a module or state dict in place, unless the source is the shared module."""
        with self._turn:
            if source is not self.model:
                state = source.state_dict() if isinstance(source, nn.Module) else source
                try:
                    self.model.load_state_dict(state)
                except RuntimeError as error:
                    raise EngineError(f"These weights do not fit the engine's model: {error}") from error
            self.version = self.version + 1 if version is None else version

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """See ``Engine.generate``. ``max_tokens`` is cut to the room that the context leaves."""
        limits = [room_for(request, self.max_len) for request in requests]
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].ids))
        done: dict[int, Generation] = {}
        with self._turn, self._ready():
            for start in range(0, len(order), self.max_batch):
                chunk = order[start : start + self.max_batch]
                out = self._fitting([requests[i] for i in chunk], [limits[i] for i in chunk])
                done.update(zip(chunk, out, strict=True))
        return [done[i] for i in range(len(requests))]

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Set evaluation mode, no gradients and the engine's attention for one call."""
        config, training = self.model.config, self.model.training
        attention = config._attn_implementation
        self.model.eval()
        config._attn_implementation = ATTENTION
        try:
            with torch.inference_mode():
                yield
        finally:
            config._attn_implementation = attention
            self.model.train(training)

    def _fitting(self, requests: Sequence[Request], limits: Sequence[int]) -> list[Generation]:
        """``_run``; raises ``EngineMemoryError`` where memory runs out."""
        try:
            return self._run(requests, limits)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            most = max(len(request.ids) + limit for request, limit in zip(requests, limits, strict=True))
            raise EngineMemoryError(
                f"Memory ran out while the hf engine continued {len(requests)} texts of up to {most} tokens: "
                "raise rollout.lockstep_groups if rollout.schedule is lockstep, or in a new run lower "
                "rollout.episodes_per_step or rollout.max_context"
            ) from error

    def _run(self, requests: Sequence[Request], limits: Sequence[int]) -> list[Generation]:
        """Generate for one batch, to the end of its last row."""
        like = next(self.model.parameters())
        batch, most = _Batch.of(requests, limits, like), max(limits)
        room = batch.mask.shape[-1] - max(0, most - _SPARE)
        cache = Cache(len(requests), room, self.model.config.num_hidden_layers)
        self._prefill(requests, cache, like.device)
        ids = torch.zeros(len(requests), most, dtype=torch.long, device=like.device)
        logprobs = torch.zeros(len(requests), most, device=like.device)
        counts = torch.zeros(len(requests), dtype=torch.long, device=like.device)
        tokens = torch.tensor([r.ids[-1] for r in requests], device=like.device)
        for step in range(most):
            if self._stop.is_set():
                counts[batch.slot[batch.alive]] = step
                break
            logits = self._forward(
                tokens[:, None], batch.lengths[:, None] + step, batch.mask[..., : cache.length + 1], cache
            )
            tokens, drawn = _draw(logits, batch.temperatures, batch.top_p, batch.uniforms[:, step])
            ids[batch.slot, step], logprobs[batch.slot, step] = tokens, drawn
            ended = (tokens[:, None] == batch.stops).any(1) | (batch.limits <= step + 1)
            counts[batch.slot[batch.alive & ended]] = step + 1
            batch.alive &= ~ended
            cache.length += 1
            left = int(batch.alive.sum())
            if not left:
                break
            if 2 * left < len(tokens):  # dropping rows copies the cache, so do it rarely
                rows = batch.alive.nonzero()[:, 0]
                tokens = tokens[rows]
                batch.keep(rows)
                cache.keep(rows)
        found = zip(requests, limits, ids.tolist(), logprobs.tolist(), counts.tolist(), strict=True)
        return [
            Generation(tuple(i[:n]), tuple(p[:n]), _ending(r, i[:n], limit), self.version)
            for r, limit, i, p, n in found
        ]

    def _prefill(self, requests: Sequence[Request], cache: Cache, device: torch.device) -> None:
        """Put all but the last token of each prompt into the cache.

        Attention is causal, so padding on the right has no effect. Slices of the (length-sorted) batch keep
        both the padding and the working set small: on a CPU a third faster than one wide forward pass. With
        few layers, skipping everything after the last keys and values saves as much again.
        """
        lengths = [len(r.ids) - 1 for r in requests]
        cache.filling = True
        start = 0
        while start < len(requests):
            stop = start + 1
            while stop < len(requests) and (stop + 1 - start) * lengths[stop] <= _PREFILL:
                stop += 1
            if width := lengths[stop - 1]:
                prompts = [[*r.ids[:-1], *[0] * (width + 1 - len(r.ids))] for r in requests[start:stop]]
                cache.rows = slice(start, stop)
                with suppress(Filled):
                    positions = torch.arange(width, device=device)[None]
                    self._forward(torch.tensor(prompts, device=device), positions, None, cache)
            start = stop
        cache.filling, cache.rows, cache.length = False, slice(None), lengths[-1]

    def _forward(self, tokens: Tensor, positions: Tensor, mask: Tensor | None, cache: Cache) -> Tensor:
        """Logits ``[rows, vocabulary]`` (fp32) after the last column; ``tokens`` go into the cache."""
        out = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = out.logits[:, -1].float()
        return logits


def shared_engines(models: Mapping[str, Any]) -> dict[str, Engine]:
    """Engines that sample from the learner's own modules, so weights are never copied."""
    return {name: HFEngine(model) for name, model in models.items()}


def copied_engines(models: Mapping[str, Any]) -> dict[str, Engine]:
    """Engines with copies of the trained weights, which can generate while the learner trains."""
    return {name: HFEngine(_copied(model)) for name, model in models.items()}


def _copied(module: Any) -> Any:
    """A copy of ``module`` that shares its frozen tensors."""
    frozen = [tensor for tensor in module.parameters() if not tensor.requires_grad]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in frozen})
