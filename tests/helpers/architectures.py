"""Small random models of several architectures, in folders as they come from Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Gemma3TextConfig, GPTNeoXConfig, LlamaConfig, Qwen3Config

from chat_families import FAMILIES
from model_folders import TEXTS

_GATED = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ARCHITECTURES: dict[str, tuple[Any, list[str], dict[str, Any]]] = {
    "llama": (LlamaConfig, _GATED, {"num_key_value_heads": 1}),
    "qwen3": (Qwen3Config, _GATED, {"num_key_value_heads": 1, "head_dim": 32}),
    "gemma3": (Gemma3TextConfig, _GATED, {"num_key_value_heads": 1, "head_dim": 32}),
    "gpt-neox": (GPTNeoXConfig, ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"], {}),
}
"""Name -> the class of its config, all its linear layers, and what is set besides widths."""


def write_model(folder: Path, architecture: str) -> Path:
    """A model with heads of width 32, the narrowest of vLLM's CPU kernels, and a ChatML tokenizer."""
    made, _, more = ARCHITECTURES[architecture]
    tokenizer = FAMILIES["qwen3"].tokenizer(TEXTS, 400)
    marks = {key: getattr(tokenizer, key) for key in ("eos_token_id", "bos_token_id", "pad_token_id")}
    config = made(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.1,
        **marks,
        **more,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untyped: Any = AutoModelForCausalLM
        untyped.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
