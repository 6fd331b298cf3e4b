"""The policies' model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mappa_rl.config.base import Count, Section


class Model(Section):
    """The policies' model. All keys except ``kind`` and ``max_len`` are for ``kind: tiny`` only."""

    kind: str = "tiny"
    """``tiny``: a random Qwen3 with a tokenizer trained on the demonstrations; otherwise a model folder, or
    the Hugging Face id of a downloaded model."""
    hidden: Count = 128
    """Width."""
    layers: Count = 2
    """Number of layers."""
    heads: Count = 4
    """Attention heads."""
    kv_heads: Count = 2
    """Number of key-value heads; must divide ``heads``."""
    mlp: Count = 256
    """Inner width of the feed-forward block."""
    vocab_size: Annotated[int, Field(ge=261)] = 320
    """Maximum size of the trained vocabulary, which includes all bytes and five special tokens."""
    tokenizer_style: Literal["math", "code"] = "math"
    """How text is split before BPE: ``math`` isolates symbols, ``code`` keeps dotted names whole."""
    max_len: Count = 512
    """Maximum length of a sequence, in tokens."""

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"model.kv_heads={self.kv_heads} must divide model.heads={self.heads}.")
        return self
