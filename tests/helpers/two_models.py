"""A second tiny model for teams of two: another width, vocabulary, tokenizer and chat template."""

from __future__ import annotations

from pathlib import Path

from mappa_rl.config import Model
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}<|pad|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
"""Nothing like the template of ``models.tiny``; replies end with another token."""


def write_other_model(folder: Path) -> Path:
    """A plain Hugging Face folder."""
    model = Model(hidden=48, layers=2, heads=2, kv_heads=1, mlp=64, vocab_size=290, tokenizer_style="code")
    tokenizer = train_tokenizer(["def add(a, b):\n    return a + b\n"] * 5, model)
    made = tiny_qwen3(tokenizer, model, seed=3)
    tokenizer.chat_template = TEMPLATE
    tokenizer.eos_token = "<|pad|>"
    made.generation_config.eos_token_id = tokenizer.eos_token_id
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
