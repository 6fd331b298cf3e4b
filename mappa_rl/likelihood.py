"""Log-probabilities and entropy from logits, in passes over few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_BLOCK = {"cpu": 2**17, "cuda": 2**24}
"""Numbers in one block of rows (fp32: 512 KB, of which three fit a CPU core's cache; 64 MB)."""


class Likelihood(torch.autograd.Function):
    """logits [M, V] (fp32) and targets [M] -> log-probs [M] of the targets; entropy [M], without gradient.

    All numbers and gradients are those of ``log_softmax`` and ``gather``, to the last bit. Their passes would
    write four matrices as large as the logits, here it is two (the log-probs, and the gradient); the others
    are made a block of rows at a time.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logp = torch.empty_like(logits)
        entropy = logits.new_empty(len(logits))
        scratch = _scratch(logits)
        for rows in _blocks(logits):
            torch.log_softmax(logits[rows], -1, out=logp[rows])
            part = scratch[: len(logp[rows])]
            torch.sum(torch.exp(logp[rows], out=part).mul_(logp[rows]), -1, out=entropy[rows])
        ctx.save_for_backward(logp, targets)
        ctx.mark_non_differentiable(entropy)
        return logp.gather(1, targets[:, None]).squeeze(1), entropy.neg_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        logp, targets = ctx.saved_tensors
        out = torch.empty_like(logp)
        scratch = _scratch(logp).zero_()
        for rows in _blocks(logp):
            part, at = scratch[: len(logp[rows])], targets[rows, None]
            part.scatter_(1, at, gradient[rows, None])
            torch._log_softmax_backward_data(part, logp[rows], 1, logp.dtype, out=out[rows])
            part.scatter_(1, at, 0.0)
        return out, None


def score_logits(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """``Likelihood`` of logits over ``temperature``, in fp32 whatever they are in."""
    logits = logits.float() if temperature == 1 else logits.float() / temperature  # few copies: they are big
    logprobs, entropy = Likelihood.apply(logits, targets)
    return logprobs, entropy


def _blocks(matrix: Tensor) -> Iterator[slice]:
    step = _rows(matrix)
    for start in range(0, len(matrix), step):
        yield slice(start, start + step)


def _rows(matrix: Tensor) -> int:
    return max(1, _BLOCK[matrix.device.type] // matrix.size(1))


def _scratch(matrix: Tensor) -> Tensor:
    return matrix.new_empty(min(_rows(matrix), len(matrix)), matrix.size(1))
