"""Attention over packed sequences: one call per segment, so that no token sees another sequence.

Cost grows with the segments' own lengths: neither a padded row nor a block-diagonal mask is ever computed.
Registered with transformers under ``VARLEN``; works wherever ``scaled_dot_product_attention`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from mappa_rl.errors import LearnerError

VARLEN = "varlen_sdpa"
"""Name of this attention in transformers' registry."""


def varlen_sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    segments: Sequence[int],
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each of ``segments`` (lengths that sum to N); query is [1, heads, N, dim].

    ``split`` and not slicing: the gradient of every slice would be a zero-filled tensor of full length.
    """
    parts = zip(*(t.split(list(segments), dim=2) for t in (query, key, value)), strict=True)
    out = [
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
        for q, k, v in parts
    ]
    return torch.cat(out, dim=2).transpose(1, 2), None


@contextmanager
def packed_attention(model: nn.Module) -> Iterator[None]:
    """Use ``VARLEN`` in ``model`` for the time of a forward pass; other users of the module see no change."""
    config: Any = model.config
    before = config._attn_implementation
    config._attn_implementation = VARLEN
    try:
        yield
    finally:
        config._attn_implementation = before


@contextmanager
def recomputed(model: nn.Module) -> Iterator[None]:
    """Decoder layers called in here keep their inputs alone and compute the rest again in the backward pass.

    Layers recompute in training mode only, which would also turn dropout on, so it is on for the outer call
    alone; and the backward pass comes when ``packed_attention`` is over, so that goes with the computation.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise LearnerError(
            f"{type(model).__name__} has no layers that can be recomputed; use "
            "optim.gradient_checkpointing=false."
        )

    def run(call: Any, *args: Any) -> Any:
        def compute(*inputs: Any) -> Any:
            call.func.__self__.training = False
            with packed_attention(model):
                return call(*inputs)

        return checkpoint(compute, *args, use_reentrant=False, preserve_rng_state=False)

    for layer in layers:
        layer.gradient_checkpointing, layer.training = True, True
        layer._gradient_checkpointing_func = run  # type: ignore[assignment]
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing, layer.training = False, False


AttentionInterface.register(VARLEN, varlen_sdpa)
AttentionMaskInterface.register(VARLEN, lambda *_, **__: None)
