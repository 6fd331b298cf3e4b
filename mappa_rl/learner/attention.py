"""Attention over packed sequences: causal within each segment, so that no token sees another sequence.

Two kernels behind one interface, registered with transformers under their names. Neither computes a padded
row or a block-diagonal mask, and their gradients are equal within rounding:

    varlen_sdpa   one ``scaled_dot_product_attention`` a segment; works on every device, in every precision
    varlen_flash  one call for all segments, flash attention as it comes with torch; CUDA, bf16 or fp16
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from mappa_rl.errors import LearnerError

Kernel = Literal["auto", "sdpa", "flash"]
_HALF = (torch.bfloat16, torch.float16)


class Segments(NamedTuple):
    """Where sequences lie in a pack: ``cu_seqlens`` [S+1] (int32, on the device) are their bounds.

    ``lengths`` [S] and ``max_seqlen`` say the same on the host, so that no kernel waits for the device.
    """

    lengths: list[int]
    cu_seqlens: Tensor
    max_seqlen: int

    @classmethod
    def of(cls, bounds: NDArray[np.int32], device: torch.device) -> Segments:
        lengths = np.diff(bounds).tolist()
        return cls(lengths, torch.from_numpy(bounds).to(device), max(lengths))


def kernel_of(asked: Kernel, device: torch.device, dtype: torch.dtype) -> str:
    """The registered name of the kernel: with ``auto`` flash where it runs. Raises ``LearnerError``."""
    runs = device.type == "cuda" and dtype in _HALF
    if asked == "flash" and not runs:
        raise LearnerError(
            f"optim.attention=flash needs bf16 weights on a CUDA device, these are {dtype} on {device.type}. "
            "Use optim.attention=auto, or optim.dtype=bf16 on a GPU."
        )
    return "varlen_sdpa" if asked == "sdpa" or not runs else "varlen_flash"


def varlen_sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    segments: Segments,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """query [1, heads, N, dim], key and value [1, key-value heads, N, dim] -> [1, N, heads, dim].

    ``split`` and not slicing: the gradient of every slice would be a zero-filled tensor of full length.
    """
    _refuse(module, softcap, s_aux)
    if sliding_window is not None and segments.max_seqlen > sliding_window:
        raise LearnerError(
            f"A sequence of {segments.max_seqlen} tokens is longer than the window of {sliding_window} that "
            f"{type(module).__name__} attends to, which optim.attention=sdpa does not know. Shorten "
            "rollout.max_context, or use optim.attention=flash on a GPU."
        )
    parts = zip(*(t.split(segments.lengths, dim=2) for t in (query, key, value)), strict=True)
    out = [
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
        for q, k, v in parts
    ]
    return torch.cat(out, dim=2).transpose(1, 2), None


def varlen_flash(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    segments: Segments,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """As ``varlen_sdpa``. A window of W tokens holds the token itself and the W - 1 before it."""
    from torch.nn.attention import varlen  # registers operators; only where it is used

    _refuse(module, softcap, s_aux)
    bounds, longest = segments.cu_seqlens, segments.max_seqlen
    q, k, v = (t[0].transpose(0, 1) for t in (query, key, value))
    out = varlen.varlen_attn(
        q, k, v, bounds, bounds, longest, longest, scale=scaling, enable_gqa=key.size(1) != query.size(1),
        window_size=(-1 if sliding_window is None else sliding_window - 1, 0),
    )  # fmt: skip
    assert isinstance(out, Tensor)
    return out[None], None


def _refuse(module: nn.Module, softcap: float | None, sinks: Tensor | None) -> None:
    for name, given in (("soft-capped scores", softcap), ("attention sinks", sinks)):
        if given is not None:
            raise LearnerError(
                f"{type(module).__name__} has {name}, which attention over packed sequences does not know. "
                "Choose another model."
            )


@contextmanager
def packed_attention(model: nn.Module, kernel: str = "varlen_sdpa") -> Iterator[None]:
    """Use ``kernel`` in ``model`` for the time of a forward pass; other users of the module see no change."""
    config: Any = model.config
    before = config._attn_implementation
    config._attn_implementation = kernel
    try:
        yield
    finally:
        config._attn_implementation = before


@contextmanager
def recomputed(model: nn.Module, kernel: str = "varlen_sdpa") -> Iterator[None]:
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
            with packed_attention(model, kernel):
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


for _name, _function in (("varlen_sdpa", varlen_sdpa), ("varlen_flash", varlen_flash)):
    AttentionInterface.register(_name, _function)
    AttentionMaskInterface.register(_name, lambda *_, **__: None)
