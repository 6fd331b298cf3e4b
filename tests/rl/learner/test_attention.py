"""Attention over packs: the kernel is chosen by device, or asked for and refused, and flash is called right.

No GPU here: flash attention itself is replaced by a fake that attends to one segment after the other.
``benchmarks/gpu_learner.py`` compares the real one.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import varlen

from learner_helpers import make_batch, make_model, make_scorer
from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError, LearnerError
from mappa_rl.learner.attention import Segments, kernel_of, varlen_flash, varlen_sdpa
from mappa_rl.learner.packing import pack

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class FakeFlash:
    """What ``varlen_attn`` documents, computed per segment; keeps the arguments of every call."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seq_q: torch.Tensor,
        cu_seq_k: torch.Tensor,
        max_q: int,
        max_k: int,
        *,
        scale: float | None,
        window_size: tuple[int, int],
        enable_gqa: bool,
    ) -> torch.Tensor:
        assert query.ndim == key.ndim == value.ndim == 3  # [tokens, heads, dim]
        assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
        assert cu_seq_q[-1] == len(query) == len(key)
        assert max_q == max_k == int(cu_seq_q.diff().max())
        assert enable_gqa == (query.size(1) != key.size(1))
        self.calls.append({"window_size": window_size, "scale": scale})
        out = []
        for start, end in zip(cu_seq_q[:-1].tolist(), cu_seq_q[1:].tolist(), strict=True):
            at = torch.arange(end - start)
            away = at[:, None] - at[None]
            seen = away >= 0 if window_size[0] < 0 else (away >= 0) & (away <= window_size[0])
            q, k, v = (t[start:end].transpose(0, 1)[None] for t in (query, key, value))
            mixed = F.scaled_dot_product_attention(
                q, k, v, attn_mask=seen, scale=scale, enable_gqa=enable_gqa
            )
            out.append(mixed[0].transpose(0, 1))
        return torch.cat(out)


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> FakeFlash:
    fake = FakeFlash()
    monkeypatch.setattr(varlen, "varlen_attn", fake)
    return fake


def test_the_kernel_is_chosen_by_device_and_precision() -> None:
    assert kernel_of("auto", CPU, torch.float32) == "varlen_sdpa"
    assert kernel_of("auto", CPU, torch.bfloat16) == "varlen_sdpa"
    assert kernel_of("auto", CUDA, torch.float32) == "varlen_sdpa"
    assert kernel_of("auto", CUDA, torch.bfloat16) == "varlen_flash"
    assert kernel_of("flash", CUDA, torch.bfloat16) == "varlen_flash"
    assert kernel_of("sdpa", CUDA, torch.bfloat16) == "varlen_sdpa"


def test_flash_that_cannot_run_is_refused() -> None:
    for device, dtype in ((CPU, torch.bfloat16), (CUDA, torch.float32)):
        with pytest.raises(LearnerError, match=r"optim\.attention=auto"):
            kernel_of("flash", device, dtype)
    samples, advantages, weights = make_batch(2)
    with pytest.raises(LearnerError, match="on cpu"):
        make_scorer(make_model(), attention="flash", dtype="bf16")(pack(samples, weights, advantages))
    with pytest.raises(ConfigError, match=r"optim\.attention=flash does not support fp32"):
        load_config("demo", ["optim.attention=flash"])
    assert load_config("demo", ["optim.attention=flash", "optim.dtype=bf16", "optim.zero_stage=2"])


@pytest.mark.parametrize("heads", [(4, 2), (3, 3)])
def test_both_kernels_take_and_give_the_same(flash: FakeFlash, heads: tuple[int, int]) -> None:
    torch.manual_seed(0)
    segments = Segments.of(np.array([0, 5, 6, 13], np.int32), CPU)
    assert (segments.lengths, segments.max_seqlen) == ([5, 1, 7], 7)
    given = [torch.randn(1, n, 13, 8, requires_grad=True) for n in (heads[0], heads[1], heads[1])]
    outcomes = []
    for kernel in (varlen_sdpa, varlen_flash):
        out, _ = kernel(torch.nn.Module(), *given, None, segments=segments, scaling=0.3, dropout=0.0)
        assert out.shape == (1, 13, heads[0], 8)
        outcomes.append([out, *torch.autograd.grad((out * torch.linspace(0, 1, 8)).sum(), given)])
    for a, b in zip(*outcomes, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    assert flash.calls == [{"window_size": (-1, 0), "scale": 0.3}]


@pytest.mark.parametrize("recompute", [False, True])
def test_a_whole_model_has_the_same_gradient_with_either(
    flash: FakeFlash, monkeypatch: pytest.MonkeyPatch, recompute: bool
) -> None:
    samples, advantages, weights = make_batch()
    batch = pack(samples, weights, advantages)
    outcomes = []
    for kernel in ("varlen_sdpa", "varlen_flash"):
        monkeypatch.setattr("mappa_rl.learner.forward.kernel_of", lambda *_, kernel=kernel: kernel)
        model = make_model()
        scores = make_scorer(model, gradient_checkpointing=recompute)(batch)
        (scores.logprobs * torch.from_numpy(batch.advantages)).sum().backward()
        outcomes.append([scores.logprobs.detach(), *(p.grad for p in model.parameters())])
    assert len(flash.calls) == (4 if recompute else 2)
    for a, b in zip(*outcomes, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_a_window_is_passed_on_or_refused_and_never_ignored(flash: FakeFlash) -> None:
    segments = Segments.of(np.array([0, 6], np.int32), CPU)
    q = torch.randn(1, 2, 6, 8)
    module = torch.nn.Module()
    out, _ = varlen_flash(module, q, q, q, None, segments=segments, sliding_window=3)
    alone, _ = varlen_flash(
        module, *(q[:, :, 3:],) * 3, None, segments=Segments.of(np.array([0, 3], np.int32), CPU)
    )
    assert flash.calls[0]["window_size"] == (2, 0)
    torch.testing.assert_close(out[:, -1], alone[:, -1])  # the last token sees itself and two more
    with pytest.raises(LearnerError, match="window of 3"):
        varlen_sdpa(module, q, q, q, None, segments=segments, sliding_window=3)
    varlen_sdpa(module, q, q, q, None, segments=segments, sliding_window=6)


@pytest.mark.parametrize("extra", [{"softcap": 50.0}, {"s_aux": torch.zeros(2)}])
@pytest.mark.parametrize("kernel", [varlen_sdpa, varlen_flash])
def test_what_attention_does_not_know_is_refused(kernel: Any, extra: dict[str, Any]) -> None:
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(LearnerError, match="Choose another model"):
        kernel(torch.nn.Module(), q, q, q, None, segments=Segments.of(np.array([0, 4]), CPU), **extra)


def test_the_model_keeps_its_own_attention() -> None:
    model = make_model()
    samples, advantages, weights = make_batch(2)
    make_scorer(copy.deepcopy(model))(pack(samples, weights, advantages))
    assert model.config._attn_implementation == "sdpa"
