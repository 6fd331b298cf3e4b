"""Model folders as they come from Hugging Face, small and random."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from chat_families import FAMILIES

TEXTS = [
    "plan: gcd(84, 70)",
    "```python\nprint(gcd(84, 70))\n```",
    "The output is 14. answer: \\boxed{14}",
] * 10


def model_folder(folder: Path, family: str) -> Path:
    """A small random Llama with a family's tokenizer and template, in a folder."""
    tokenizer = FAMILIES[family].tokenizer(TEXTS, 400)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=512,
        initializer_range=0.1,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
