"""The key-value cache of the hf engine, and the attention function that reads it."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from mappa_rl.errors import EngineError

ATTENTION = "mappa_decode"


def attend(
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

    Raises EngineError for a model that changes its scores: attention sinks, soft caps.
    """
    if changed := [name for name in ("s_aux", "softcap") if unused.get(name) is not None]:
        raise EngineError(
            f"The hf engine does not support attention with {', '.join(changed)}, which this model asks for; "
            "use engine.name=vllm."
        )
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
AttentionInterface.register(ATTENTION, attend)


class Filled(Exception):
    """Ends a forward pass once the last layer has its keys and values: the rest is not needed."""


class Cache:
    """Keys and values of all layers for ``size`` rows, written in place; doubles when it is full.

    Unwritten columns are zero, because a masked score must still be a number. ``rows`` selects the rows of
    the next forward pass; ``length`` columns are in use. When ``filling``, the update of the last of
    ``depth`` layers ends the forward pass by raising ``Filled``.
    """

    def __init__(self, size: int, room: int, depth: int) -> None:
        self.size = size
        self.room = room
        self.depth = depth
        self.length = 0
        self.filling = False
        self.rows = slice(None)
        self.layers: list[list[Tensor]] = []

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write ``[rows, heads, n, dim]`` after ``length``; return everything so far."""
        end = self.length + keys.shape[2]
        if layer == len(self.layers):
            shapes = [(self.size, t.shape[1], max(self.room, end), t.shape[3]) for t in (keys, values)]
            self.layers.append([keys.new_zeros(shape) for shape in shapes])
        held = self.layers[layer]
        if held[0].shape[2] < end:
            held[:] = [F.pad(t, (0, 0, 0, end)) for t in held]
        for store, new in zip(held, (keys, values), strict=True):
            store[self.rows, :, self.length : end] = new
        if self.filling and layer == self.depth - 1:
            raise Filled
        return held[0][self.rows, :, :end], held[1][self.rows, :, :end]

    def keep(self, rows: Tensor) -> None:
        """Drop all other rows."""
        self.layers = [[t[rows] for t in held] for held in self.layers]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns in use; part of the interface that transformers expects of a cache."""
        return self.length
