"""Log-probs and entropy in blocks of rows: to the last bit what ``log_softmax`` and autograd give."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mappa_rl.learner import lm_head
from mappa_rl.learner.lm_head import score_logits


def plain(logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logp = (logits.float() / temperature).log_softmax(-1)
    return logp.gather(1, targets[:, None]).squeeze(1), -(logp.exp() * logp).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("block", [1, 7 * 50, 2**17])  # one row, a block that does not divide 41, all rows
def test_blocks_give_what_autograd_gives(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, temperature: float, block: int
) -> None:
    monkeypatch.setitem(lm_head._BLOCK, "cpu", block)
    torch.manual_seed(0)
    logits = (3 * torch.randn(41, 50)).to(dtype).requires_grad_()
    targets, scale = torch.randint(0, 50, (41,)), torch.randn(41)
    right = plain(logits, targets, temperature)
    found = score_logits(logits, targets, temperature)
    torch.testing.assert_close(found, right, atol=1e-6, rtol=1e-6)
    assert found[0].dtype == found[1].dtype == torch.float32
    assert found[0].requires_grad
    (wanted,) = torch.autograd.grad(right[0], logits, scale, retain_graph=True)
    (gradient,) = torch.autograd.grad(found[0], logits, scale, retain_graph=True)
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, wanted, atol=1e-6, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5)
    (again,) = torch.autograd.grad(found[0], logits, scale, retain_graph=True)
    assert torch.equal(again, gradient)
    for of in ((1,), (0, 1)):  # of the entropy alone, and of both
        parts, scales = [right[k] for k in of], [scale + k for k in of]
        (wanted,) = torch.autograd.grad(parts, logits, scales, retain_graph=True)
        (gradient,) = torch.autograd.grad([found[k] for k in of], logits, scales, retain_graph=True)
        torch.testing.assert_close(
            gradient, wanted, atol=1e-5, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5
        )
    with torch.no_grad():
        assert torch.equal(score_logits(logits, targets, temperature)[0], found[0])


def test_recomputed_it_gives_the_same_gradient() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(9, 4, requires_grad=True), torch.randn(50, 4, requires_grad=True)
    targets = torch.randint(0, 50, (9,))

    def compute(states: Tensor) -> Tensor:
        return torch.cat(score_logits(states @ weight.T, targets, 1.0))

    right = torch.autograd.grad(compute(hidden).square().sum(), (hidden, weight))
    later = checkpoint(compute, hidden, use_reentrant=False, preserve_rng_state=False)
    for a, b in zip(torch.autograd.grad(later.square().sum(), (hidden, weight)), right, strict=True):
        assert torch.equal(a, b)
