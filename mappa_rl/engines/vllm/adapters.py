"""Lets a vLLM worker on a CPU multiply by all adapters at once.

vLLM's own products on a CPU first copy the whole adapter for every token. Here two plain products take all
adapters, and a mask keeps each token's own part of what is between them: an eighth of the time for 32 tokens,
a thirtieth for 512 (SmolLM2-135M, three adapters of rank 16, two cores). vLLM imports this module in its
worker, before it creates a model.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
from vllm.platforms.cpu import CpuPlatform

from mappa_rl.engines.vllm.worker import WorkerExtension


class AllAdapters(PunicaWrapperCPU):  # type: ignore[misc]  # untyped without vLLM
    """vLLM's products of tokens and their adapters, in one pass for all adapters."""

    _own: Tensor | None = None

    def update_metadata(self, *args: Any, **kwargs: Any) -> None:
        """Note which adapter each token of the next pass has."""
        super().update_metadata(*args, **kwargs)
        self._own = None

    def add_lora_linear(
        self,
        y: Tensor,
        x: Tensor,
        lora_a_stacked: tuple[Tensor, ...],
        lora_b_stacked: tuple[Tensor, ...],
        scale: float,
        output_slices: tuple[int, ...],
        **kwargs: Any,
    ) -> None:
        """Add to each slice of ``y`` [..., out] the product of ``x`` [..., in] and its tokens' adapters.

        ``lora_a_stacked``: [adapters, 1, rank, in] for each slice; ``lora_b_stacked``: [adapters, 1, out,
        rank].
        """
        if self.no_lora:
            return
        x, y = x.view(-1, x.shape[-1]), y.view(-1, y.shape[-1])
        start = 0
        for a, b, size in zip(lora_a_stacked, lora_b_stacked, output_slices, strict=True):
            middle = F.linear(x, a.reshape(-1, a.shape[-1])).mul_(self._mask(a))
            if scale != 1:
                middle *= scale
            wide = b[:, 0].permute(1, 0, 2).reshape(b.shape[2], -1)
            y[:, start : start + size] += F.linear(middle, wide)
            start += size

    def _mask(self, a: Tensor) -> Tensor:
        """1 where a number between the products belongs to its token's adapter [tokens, adapters * rank]."""
        if self._own is None:
            of = torch.arange(a.shape[0], device=a.device).repeat_interleave(a.shape[2])
            self._own = (self.token_lora_indices[:, None] == of[None]).to(a.dtype)
        return self._own


class AdaptersExtension(WorkerExtension):
    """The worker's methods; vLLM finds the products above because it imports this."""


def _wrapper(cls: type[CpuPlatform]) -> str:
    return f"{__name__}.{AllAdapters.__name__}"


CpuPlatform.get_punica_wrapper = classmethod(_wrapper)  # vLLM asks it by name
