"""A small random Qwen3."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCAB = 64


def small_qwen(seed: int = 0, **sizes: Any) -> Qwen3ForCausalLM:
    """Two layers in fp32, except as ``sizes``, fields of its configuration, say."""
    plain: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "initializer_range": 0.3,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "attn_implementation": "sdpa",
    }
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(**(plain | sizes)))
