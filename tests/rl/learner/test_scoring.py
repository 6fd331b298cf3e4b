"""Log-probs in chunks and recomputed layers: the numbers of the plain pass, without its memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, CohereConfig, Gemma2Config, GraniteConfig, Qwen3Config

from learner_helpers import VOCAB, make_batch, make_model, make_scorer
from mappa_rl.errors import LearnerError
from mappa_rl.learner.packing import pack

_SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CONFIGS = {
    "tied": Qwen3Config(**_SHAPE, tie_word_embeddings=True),
    "untied": Qwen3Config(**_SHAPE, tie_word_embeddings=False),
    "softcapping": Gemma2Config(
        **_SHAPE, final_logit_softcapping=2.0, attn_logit_softcapping=None, layer_types=["full_attention"] * 2
    ),
    "divided": GraniteConfig(**_SHAPE, logits_scaling=3.0),
    "multiplied": CohereConfig(**_SHAPE, logit_scale=0.25),
}


class Largest(TorchDispatchMode):
    """Remembers the most numbers that any operation's result had."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return out


def build(name: str) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(CONFIGS[name], attn_implementation="sdpa").float().eval()


def run(model: Any, **options: Any) -> tuple[list[torch.Tensor], int, int]:
    """Log-probs, entropies and gradients of a fixed batch; its scored tokens; the largest result."""
    samples, advantages, weights = make_batch()
    batch = pack(samples, weights, advantages)
    model.zero_grad()
    with Largest() as largest:
        scores = make_scorer(model, 0.7, **options)(batch)
        (scores.logprobs * torch.from_numpy(batch.advantages)).mean().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    return [*(t.detach() for t in scores[:2]), *gradients], len(batch.rows), largest.numbers


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_chunks_and_recomputed_layers_change_no_number(name: str, recompute: bool) -> None:
    model = build(name)
    right, _, _ = run(model)
    for chunk in (7 * VOCAB, 1, 2**24):
        found, _, _ = run(model, chunk=chunk, gradient_checkpointing=recompute)
        for a, b in zip(found, right, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert not any(module.training for module in model.modules())


@pytest.mark.parametrize("name", CONFIGS)
def test_autocast_computes_in_bf16_and_keeps_weights_and_gradients_in_fp32(name: str) -> None:
    model = build(name)
    (right, *_), *_ = run(model)
    found, _, _ = run(model, autocast=True)
    assert not torch.equal(found[0], right)
    torch.testing.assert_close(found[0], right, atol=0.1, rtol=0.02)
    assert {t.dtype for t in (*found, *model.parameters())} == {torch.float32}
    for options in ({"chunk": 7 * VOCAB}, {"gradient_checkpointing": True}, {"chunk": 1}):
        again, _, _ = run(model, autocast=True, **options)
        for a, b in zip(again, found, strict=True):
            assert (a - b).norm() <= 0.02 * b.norm()


def test_no_result_is_as_large_as_all_logits() -> None:
    model = build("untied")
    _, scored, whole = run(model)
    assert whole >= scored * VOCAB
    _, _, chunked = run(model, chunk=20 * VOCAB)
    tokens = sum(map(len, make_batch()[0]))
    widest = tokens * max(_SHAPE["intermediate_size"], _SHAPE["hidden_size"])  # the decoder's own
    assert chunked <= max(widest, 20 * VOCAB)


def test_recomputed_layers_hold_less_for_the_backward_pass() -> None:
    samples, advantages, weights = make_batch()
    batch = pack(samples, weights, advantages)
    held = {}
    for recompute in (False, True):
        kept: dict[int, int] = {}

        def keep(tensor: torch.Tensor, kept: dict[int, int] = kept) -> torch.Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            scores = make_scorer(make_model(layers=6).eval(), gradient_checkpointing=recompute)(batch)
        held[recompute] = sum(kept.values())
        assert scores.logprobs.requires_grad
    assert held[True] < 0.4 * held[False]


def test_a_model_that_changes_logits_otherwise_is_refused() -> None:
    model = build("untied")
    own = model.forward

    def doubled(*args: Any, **kwargs: Any) -> Any:
        out = own(*args, **kwargs)
        out.logits = out.logits * 2
        return out

    model.forward = doubled
    with pytest.raises(LearnerError, match="Qwen3ForCausalLM"):
        run(model, chunk=7 * VOCAB)
