"""Where a vLLM worker's weights lie when the trainer writes to them, and the products with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from engine_helpers import needs_vllm


@needs_vllm
def test_only_a_model_whose_bytes_are_the_folders_is_laid_out(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from mappa_rl.engines.vllm.in_place import find_layout

    class Model(torch.nn.Module):
        packed_modules_mapping: ClassVar = {"qkv": ["q", "k"]}

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Module()
            self.layer.qkv = torch.nn.Linear(8, 12)
            self.head = torch.nn.Linear(8, 5, bias=False)

    model = Model()
    rows, bias = model.layer.qkv.weight.detach(), model.layer.qkv.bias.detach()
    right = {
        "layer.q.weight": rows[:8],
        "layer.k.weight": rows[8:],
        "layer.q.bias": bias[:8],
        "layer.k.bias": bias[8:],
        "head.weight": model.head.weight.detach(),
    }

    def laid_out(**changed: torch.Tensor) -> Any:
        saved = {name: tensor.clone() for name, tensor in (right | changed).items() if len(tensor)}
        save_file(saved, tmp_path / "model.safetensors")
        return find_layout(model, tmp_path)

    found = laid_out()
    assert found.weights == {
        "layer.q.weight": 0,
        "layer.k.weight": 8 * 8 * 4,
        "layer.q.bias": 384,
        "layer.k.bias": 384 + 32,
        "head.weight": 448,
    }
    assert found.size == 448 + 192
    assert laid_out(**{"layer.k.weight": rows[8:] + 1}) is None  # other bytes
    assert laid_out(**{"layer.q.weight": rows[:0], "layer.k.weight": rows[8:]}) is None  # one is missing
    assert laid_out(**{"head.weight": right["head.weight"].bfloat16()}) is None  # rounded
    assert laid_out(**{"other": rows}) is None  # nowhere
    assert laid_out(**{"head.weight": right["head.weight"][:4]}) is None  # the last row comes from elsewhere
    with torch.no_grad():
        model.head.weight.copy_(model.head.weight.bfloat16())
    assert laid_out(**{"head.weight": model.head.weight.detach().bfloat16()}) == found  # loaded in fp32
    with torch.no_grad():
        model.head.weight[4:] = 0
    assert laid_out(**{"head.weight": model.head.weight.detach()[:4]}).size == found.size  # padding


@needs_vllm
@pytest.mark.parametrize("by_mkl", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 47, 48])
def test_plain_products_are_the_same_on_all_processors(
    rows: int, by_mkl: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mappa_rl.engines.vllm import in_place
    from mappa_rl.engines.vllm.in_place import linear

    monkeypatch.setattr(in_place, "_BY_MKL", by_mkl)
    torch.manual_seed(0)
    x, weight, bias = torch.randn(rows, 24), torch.randn(40, 24), torch.randn(40)
    for given in (None, bias):
        found = linear(x, weight, given)
        assert found.is_contiguous()
        torch.testing.assert_close(found, torch.nn.functional.linear(x, weight, given))
