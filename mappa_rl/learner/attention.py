"""Attention over packed sequences: causal within each segment, so that no token sees another sequence.

Two kernels share one interface and are registered with transformers by name. Neither needs padding or a
block-diagonal mask, and their gradients are equal up to rounding:

    varlen_sdpa   one ``scaled_dot_product_attention`` per segment; any device, any precision
    varlen_flash  one call of torch's flash attention for all segments; CUDA, bf16 or fp16
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """The sequences of a pack: ``cu_seqlens`` [S+1] (int32, on the device) are their bounds.

    ``lengths`` [S] and ``max_seqlen`` are kept on the host, so that no kernel waits for the device.
    """

    lengths: list[int]
    cu_seqlens: Tensor
    max_seqlen: int

    @classmethod
    def of(cls, bounds: NDArray[np.int32], device: torch.device) -> Segments:
        """The segments between ``bounds`` [S+1], which begin with 0."""
        lengths = np.diff(bounds).tolist()
        return cls(lengths, torch.from_numpy(bounds).to(device), max(lengths))


def kernel_of(asked: Kernel, device: torch.device, dtype: torch.dtype) -> str:
    """The registered name of the kernel; ``auto`` is flash if it runs here, else sdpa.

    Raises LearnerError if flash is asked for and does not run here.
    """
    runs = device.type == "cuda" and dtype in _HALF
    if asked == "flash" and not runs:
        raise LearnerError(
            f"optim.attention=flash needs bf16 weights on a CUDA device, found {dtype} on {device.type}. "
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
    **options: Any,
) -> tuple[Tensor, None]:
    """Query [1, heads, N, dim], key and value [1, key-value heads, N, dim] -> [1, N, heads, dim].

    ``options`` are those of transformers: ``scaling``, ``sliding_window``, ``softcap``, ``s_aux``.

    Raises LearnerError for options that it does not support.
    """
    # torch.split, because the gradient of every slice would be a zero-filled tensor of full length.
    _refuse(module, options)
    sliding_window: int | None = options.get("sliding_window")
    if sliding_window is not None and segments.max_seqlen > sliding_window:
        raise LearnerError(
            f"A sequence has {segments.max_seqlen} tokens, but {type(module).__name__} has a window of "
            f"{sliding_window}, which optim.attention=sdpa does not support. Lower rollout.max_context, or "
            "use optim.attention=flash on a GPU."
        )
    parts = zip(*(torch.split(t, segments.lengths, dim=2) for t in (query, key, value)), strict=True)
    out = [
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=options.get("scaling"), enable_gqa=True)
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
    **options: Any,
) -> tuple[Tensor, None]:
    """See ``varlen_sdpa``. A window of W tokens is the token itself and the W - 1 before it."""
    from torch.nn.attention import varlen  # registers operators, so import it only if it is used

    _refuse(module, options)
    sliding_window: int | None = options.get("sliding_window")
    bounds, longest = segments.cu_seqlens, segments.max_seqlen
    q, k, v = (t[0].transpose(0, 1) for t in (query, key, value))
    out = varlen.varlen_attn(
        q,
        k,
        v,
        bounds,
        bounds,
        longest,
        longest,
        scale=options.get("scaling"),
        enable_gqa=key.size(1) != query.size(1),
        window_size=(-1 if sliding_window is None else sliding_window - 1, 0),
    )
    assert isinstance(out, Tensor)
    return out[None], None


def _refuse(module: nn.Module, options: Mapping[str, Any]) -> None:
    for name, key in (("soft-capped scores", "softcap"), ("attention sinks", "s_aux")):
        if options.get(key) is not None:
            raise LearnerError(
                f"{type(module).__name__} has {name}, which packed attention does not support. "
                "Choose another model."
            )


@contextmanager
def packed_attention(model: nn.Module, kernel: str = "varlen_sdpa") -> Iterator[None]:
    """Use ``kernel`` in ``model`` during a forward pass; other users of the module see no change."""
    config: Any = model.config
    before = config._attn_implementation
    config._attn_implementation = kernel
    try:
        yield
    finally:
        config._attn_implementation = before


@contextmanager
def recomputed(model: nn.Module, kernel: str = "varlen_sdpa") -> Iterator[None]:
    """Inside the block, decoder layers keep only their inputs and recompute the rest in the backward pass.

    Layers recompute only in training mode, which also turns dropout on. So the outer call is in training mode
    and the layer's own computation is not. The backward pass runs after ``packed_attention`` has ended, so
    the computation enters it again.

    Raises LearnerError if the model has no such layers.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise LearnerError(
            f"{type(model).__name__} does not support gradient checkpointing; set "
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
