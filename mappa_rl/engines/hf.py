"""The plain engine: a decode loop over a Hugging Face causal language model, on CPU or one GPU.

For models under about a million parameters on a CPU this is as fast as a serving engine, and it can share
the learner's module, so weights need no copying. Lean by construction: no ``.generate``, one prepared mask,
a key-value cache written in place, finished rows dropped from the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator, Philox
from torch import Tensor, nn
from transformers import AttentionInterface

from mappa_rl.engines.base import Generation, Request
from mappa_rl.errors import EngineError

_ATTENTION = "mappa_decode"
_SPARE = 64  # tokens of room the cache starts with beyond the prompts


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """Grouped-query attention that never repeats the cache.

    With one query token per row, the heads of a group are laid along the query axis (all see the same mask).
    """
    rows, heads, length, dim = query.shape
    groups = key.shape[1]
    if length == 1:
        folded = query.reshape(rows, groups, heads // groups, dim)
        out = F.scaled_dot_product_attention(folded, key, value, attn_mask=attention_mask, scale=scaling)
        return out.reshape(rows, 1, heads, dim), None
    out = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        scale=scaling,
        is_causal=attention_mask is None,
        enable_gqa=True,
    )
    return out.transpose(1, 2), None


# No mask function goes with it: transformers then passes prepared 4-D masks on and builds none of its own.
AttentionInterface.register(_ATTENTION, _attend)


class _Cache:
    """Keys and values of all layers, written in place; grows by doubling its spare room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.length = 0
        self.layers: list[tuple[Tensor, Tensor]] = []

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append ``[rows, heads, n, dim]`` and return everything so far; ``length`` moves after the forward."""
        end = self.length + keys.shape[2]
        if layer == len(self.layers):
            self.layers.append((self._empty(keys, end), self._empty(values, end)))
        if self.layers[layer][0].shape[2] < end:
            old = self.layers[layer]
            wider = (self._empty(keys, 2 * end), self._empty(values, 2 * end))
            for new, kept in zip(wider, old, strict=True):
                new[:, :, : self.length] = kept[:, :, : self.length]
            self.layers[layer] = wider
        all_keys, all_values = self.layers[layer]
        all_keys[:, :, self.length : end] = keys
        all_values[:, :, self.length : end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]

    def keep(self, rows: Tensor) -> None:
        self.layers = [(k[rows], v[rows]) for k, v in self.layers]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def _empty(self, like: Tensor, end: int) -> Tensor:
        rows, heads, _, dim = like.shape
        return like.new_empty(rows, heads, max(end, self.room), dim)


@dataclass(slots=True)
class _Batch:
    """The rows still in the batch; every field has one entry per row and shrinks with it."""

    slot: Tensor
    lengths: Tensor
    limits: Tensor
    temperatures: Tensor
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
            uniforms=torch.from_numpy(uniforms).to(device),
            stops=torch.tensor(stops, device=device),
            alive=torch.ones(len(requests), dtype=torch.bool, device=device),
            mask=mask[:, None, None, :],
        )

    def keep(self, rows: Tensor) -> None:
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name)[rows])


def _draw(logits: Tensor, temperatures: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Sample one token per row by inverting the cumulative distribution; return tokens and log-probs.

    The first token whose cumulative probability exceeds ``u * total`` has positive probability, whatever
    the rounding. Rows of temperature 0 take the most likely token.
    """
    greedy = temperatures == 0
    logprobs = F.log_softmax(logits / torch.where(greedy, 1.0, temperatures), dim=-1, dtype=torch.float32)
    cdf = logprobs.exp().cumsum(-1, dtype=torch.float64)
    total = cdf[:, -1:]
    aim = torch.minimum(uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    tokens = torch.searchsorted(cdf, aim, right=True)
    if bool(greedy.any()):
        tokens = torch.where(greedy, logits.argmax(-1, keepdim=True), tokens)
    return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]


class HFEngine:
    """Samples from ``model``, which may be the learner's own module (then ``load_weights`` copies nothing).

    ``max_batch`` bounds the rows of one forward pass; requests are sorted by length first, so that little is
    padding. Models with sliding-window or recurrent layers are refused. Not to be called while another thread
    uses the same module.
    """

    def __init__(self, model: nn.Module, max_batch: int = 128) -> None:
        config: Any = model.config
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise EngineError(
                f"The hf engine serves full attention only, not {sorted(kinds)}; use engine=vllm."
            )
        if max_batch < 1:
            raise EngineError(f"max_batch={max_batch} must be at least 1.")
        self.model: Any = model
        self.max_batch = max_batch
        self.max_len: int = config.max_position_embeddings
        self.version = 0

    def load_weights(self, source: nn.Module | Mapping[str, Tensor], version: int | None = None) -> None:
        """Copy the weights of a module or state dict in place; the shared module needs no copy."""
        if source is not self.model:
            state = source.state_dict() if isinstance(source, nn.Module) else source
            try:
                self.model.load_state_dict(state)
            except RuntimeError as error:
                raise EngineError(f"These weights do not fit the engine's model: {error}") from error
        self.version = self.version + 1 if version is None else version

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """See ``Engine.generate``. ``max_tokens`` is cut to the room that the context leaves."""
        limits = [self._limit(request) for request in requests]
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].ids))
        done: dict[int, Generation] = {}
        with self._ready():
            for start in range(0, len(order), self.max_batch):
                chunk = order[start : start + self.max_batch]
                out = self._run([requests[i] for i in chunk], [limits[i] for i in chunk])
                done.update(zip(chunk, out, strict=True))
        return [done[i] for i in range(len(requests))]

    def _limit(self, request: Request) -> int:
        room = self.max_len - len(request.ids)
        if not len(request.ids) or room < 1:
            raise EngineError(
                f"A prompt of {len(request.ids)} tokens cannot be continued within {self.max_len} tokens; "
                "shorten the prompt or use a model with a longer context."
            )
        if request.max_tokens < 1 or not request.temperature >= 0:
            raise EngineError(
                f"max_tokens={request.max_tokens} must be >= 1 and temperature={request.temperature} >= 0."
            )
        return min(request.max_tokens, room)

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Evaluation mode, no gradients and the engine's attention, for the time of one call."""
        config, training = self.model.config, self.model.training
        attention = config._attn_implementation
        self.model.eval()
        config._attn_implementation = _ATTENTION
        try:
            with torch.inference_mode():
                yield
        finally:
            config._attn_implementation = attention
            self.model.train(training)

    def _run(self, requests: Sequence[Request], limits: Sequence[int]) -> list[Generation]:
        """Generate for one batch, to the end of its last row."""
        like = next(self.model.parameters())
        batch, most = _Batch.of(requests, limits, like), max(limits)
        cache = _Cache(room=batch.mask.shape[-1] if most <= _SPARE else batch.mask.shape[-1] - most + _SPARE)
        self._prefill(requests, cache, like.device)
        ids = torch.zeros(len(requests), most, dtype=torch.long, device=like.device)
        logprobs = torch.zeros(len(requests), most, device=like.device)
        counts = torch.zeros(len(requests), dtype=torch.long, device=like.device)
        tokens = torch.tensor([r.ids[-1] for r in requests], device=like.device)
        for step in range(most):
            logits = self._forward(
                tokens[:, None], batch.lengths[:, None] + step, batch.mask[..., : cache.length + 1], cache
            )
            tokens, drawn = _draw(logits, batch.temperatures, batch.uniforms[:, step])
            ids[batch.slot, step], logprobs[batch.slot, step] = tokens, drawn
            ended = (tokens[:, None] == batch.stops).any(1) | (batch.limits <= step + 1)
            counts[batch.slot[batch.alive & ended]] = step + 1
            batch.alive &= ~ended
            left = int(batch.alive.sum())
            if not left:
                break
            if 2 * left < len(tokens):  # dropping copies the cache, so it must pay
                rows = batch.alive.nonzero()[:, 0]
                tokens = tokens[rows]
                batch.keep(rows)
                cache.keep(rows)
        return [
            Generation(tuple(i[:n]), tuple(p[:n]), "eos" if i[n - 1] in r.stop_ids else "length")
            for r, i, p, n in zip(requests, ids.tolist(), logprobs.tolist(), counts.tolist(), strict=True)
        ]

    def _prefill(self, requests: Sequence[Request], cache: _Cache, device: torch.device) -> None:
        """Put all but the last token of each prompt into the cache. Causal, so padding on the right is unseen."""
        width = max(len(r.ids) for r in requests) - 1
        if not width:
            return
        tokens = torch.tensor(
            [[*r.ids[:-1], *[0] * (width + 1 - len(r.ids))] for r in requests], device=device
        )
        self._forward(tokens, torch.arange(width, device=device)[None], None, cache)

    def _forward(self, tokens: Tensor, positions: Tensor, mask: Tensor | None, cache: _Cache) -> Tensor:
        """Logits ``[rows, vocabulary]`` (fp32) after the last column; the cache grows by ``tokens``."""
        out = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache.length += tokens.shape[1]
        logits: Tensor = out.logits[:, -1].float()
        return logits
