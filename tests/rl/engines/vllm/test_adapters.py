"""All adapters at once give what vLLM's own products give, one token after the other."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("vllm")

from vllm.lora.layers import LoRAMapping
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

from mappa_rl.engines.vllm.adapters import AllAdapters

ADAPTERS, RANK, WIDTH, SLICES = 3, 4, 24, (16, 8, 8)


def product(kind: type[PunicaWrapperCPU], of: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """What ``kind`` adds for tokens with the adapters ``of`` (0: none), after a pass with other tokens."""
    torch.manual_seed(0)
    a = tuple(torch.randn(ADAPTERS, 1, RANK, WIDTH).to(dtype) for _ in SLICES)
    b = tuple(torch.randn(ADAPTERS, 1, size, RANK).to(dtype) for size in SLICES)
    wrapper = kind(64, 64, "cpu")
    found = torch.empty(0)
    for tokens in ((1, 1), of):
        mapping = LoRAMapping(tokens, tokens, is_prefill=True)
        wrapper.update_metadata(mapping, [1, 2, 3], ADAPTERS + 1, 100)
        x = torch.randn(len(tokens), WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)
        found = torch.ones(len(tokens), sum(SLICES), dtype=dtype)
        wrapper.add_lora_linear(found, x, a, b, 0.5, SLICES)
    return found.float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("of", [(1, 2, 3, 3, 1), (2,), (0, 3, 0, 1), (0, 0)])
def test_the_products_are_those_of_vllm(of: tuple[int, ...], dtype: torch.dtype) -> None:
    found, right = (product(kind, of, dtype) for kind in (AllAdapters, PunicaWrapperCPU))
    exact = 1e-5 if dtype == torch.float32 else 0.05
    own = torch.tensor(of) > 0
    torch.testing.assert_close(found[own], right[own], atol=exact, rtol=exact)
    assert (found[own] != 1).any() or not own.any()
    assert (found[~own] == 1).all()  # beside others, vLLM's own give a token without an adapter the last one
