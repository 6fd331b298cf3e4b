"""Whether this machine computes in bf16 faster than in fp32."""

from __future__ import annotations

import functools

_FAST = ("avx512_bf16", "amx_bf16", "bf16")
"""Names of the processors' instructions in torch, x86's and ARM's. Without them torch emulates bf16: a
product of matrices took 80 times as long as in fp32 on a processor with AVX2 alone."""


@functools.cache
def fast_bf16() -> bool:
    """Whether a GPU is there, or the processor has instructions for bf16."""
    import torch  # lazy: only settings of `auto` ask

    able = torch.cpu.get_capabilities()
    return torch.cuda.is_available() or any(able.get(name, False) for name in _FAST)
