"""What weights are sent in, and the digests that are compared."""

from __future__ import annotations

import pytest
import torch

from engine_helpers import make_model
from mappa_rl.engines.weights.base import MOST_TRANSFERS, buckets, named_weights
from mappa_rl.engines.weights.digest import _PIECE, _folded, copied, digest


@pytest.mark.parametrize("shape", [(), (3,), (7, 5), (300, 40), (1000, 33)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_digest_sees_a_bit_a_swap_and_a_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(shape).to(dtype)
    right = digest(tensor)
    assert digest(tensor.clone()) == right
    assert digest(tensor[None]) != right
    flat = tensor.view(-1)
    changed = flat.clone()
    changed[-1] = -changed[-1]
    assert digest(changed.view(shape)) != right
    if len(flat) > 1:
        swapped = flat.clone()
        swapped[0], swapped[-1] = flat[-1], flat[0]
        assert digest(swapped.view(shape)) != right
        assert digest(torch.stack([tensor, tensor], -1)[..., 0]) == right  # strides do not matter


@pytest.mark.parametrize("shape", [(), (7, 5), (_PIECE,), (3, _PIECE // 2 + 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_copy_has_the_digest_of_its_source(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weights = torch.randn(shape)
    for source in (weights, torch.stack([weights, weights], -1)[..., 1]):
        target = torch.full(shape, torch.nan, dtype=dtype)
        assert copied(source, target) == digest(weights.to(dtype)) == digest(target)


def test_a_copy_has_the_digest_of_what_was_read_not_of_what_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = torch.ones(10), torch.zeros(10)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, other: self)  # a copy that does nothing
    assert copied(source, target) == digest(source) != digest(target)


@pytest.mark.parametrize("shape", [(3,), (7, 5), (300, 40), (1000, 33)])
def test_bytes_that_are_folded_show_a_bit_and_a_swap(shape: tuple[int, ...]) -> None:
    """What is hashed of a tensor on a device, here of one in main memory."""
    torch.manual_seed(0)

    def folded(tensor: torch.Tensor) -> list[list[int]]:
        return [part.tolist() for part in _folded(tensor.view(-1).view(torch.uint8))]

    tensor = torch.randn(shape)
    flat = tensor.view(-1)
    changed, swapped = flat.clone(), flat.clone()
    changed[-1] = -changed[-1]
    swapped[0], swapped[-1] = flat[-1], flat[0]
    assert folded(tensor.clone()) == folded(tensor)
    assert folded(changed) != folded(tensor)
    assert folded(swapped) != folded(tensor)


def test_weights_are_dealt_into_few_buckets_in_their_order() -> None:
    for sizes in ([1], [2**30] * 40, [2**20] * 500, [5 * 2**30, *[2**20] * 900], list(range(1, 2000))):
        named = {f"w{k}": size for k, size in enumerate(sizes)}
        dealt = buckets(named)
        assert [name for bucket in dealt for name in bucket] == list(named)
        assert 1 <= len(dealt) <= MOST_TRANSFERS
        assert all(dealt)


def test_tied_weights_are_sent_once() -> None:
    tied, untied = named_weights(make_model()), named_weights(make_model(tied=False))
    assert set(untied) - set(tied) == {"lm_head.weight"}
