"""The benchmark of a GPU runs its code on a CPU too, and says so where it cannot measure anything."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest
import torch

from paths import ROOT


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    path = ROOT / "benchmarks" / "gpu_learner.py"
    spec = importlib.util.spec_from_file_location("gpu_learner", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_learner", module)
    spec.loader.exec_module(module)
    return module


def test_a_step_is_measured_and_its_time_divided(benchmark: Any) -> None:
    shape = benchmark.SHAPES["tiny"]._replace(pack=128, longest=64)
    found = benchmark.measure(shape, "cpu", 1)
    assert found["tokens"] == 256
    assert found["tokens_per_s"] > 0
    assert found["mfu"] is None
    assert all(found["kinds"][kind] > 0 for kind in ("attention", "gemm", "head", "optimizer", "other"))


def test_the_model_turns_far_tokens_as_one_that_was_loaded_does(benchmark: Any) -> None:
    """Rotary frequencies stay in fp32: in bf16 the angle of token 256 is off by up to half a radian."""
    model = benchmark.make_model(benchmark.SHAPES["tiny"], torch.bfloat16, "cpu")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32


def test_flops_by_hand(benchmark: Any) -> None:
    shape = benchmark.SHAPES["tiny"]
    model = benchmark.make_model(shape, torch.float32, "cpu")
    (sample, *_), _, _ = benchmark.make_samples(shape)
    length, scored = len(sample), int(sample.action_mask.sum())
    matrices = 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128)  # q, k and v, o, feed-forward; two layers
    norms = 2 * (2 * 64 + 2 * 16)
    right = 6 * ((matrices + norms) * length + 512 * 64 * scored + 2 * 4 * 16 * length**2)
    assert benchmark.flops(model, shape, [sample]) == pytest.approx(right)


def test_gradients_are_compared(benchmark: Any) -> None:
    found = benchmark.differences("cpu")
    assert found["fp32: cpu and cpu"] == 0
    assert 0 < found["fp32 and bf16, one SDPA a segment"] < 0.05


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it would measure")
def test_without_a_gpu_it_says_so(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_learner.py"])
    with pytest.raises(SystemExit, match="no CUDA GPU"):
        benchmark.main()
