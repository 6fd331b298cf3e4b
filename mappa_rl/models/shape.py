"""The size of a model: its parameters and widths, from a config, a folder or the table of known models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mappa_rl.config import Lora, Model
from mappa_rl.errors import ConfigError
from mappa_rl.models.pretrained import model_folder

HEAD_DIM = 32
"""Width of a tiny model's heads: the narrowest that vLLM's CPU kernels know."""


class Heads(NamedTuple):
    """Attention heads: of ``queries``, of ``keys`` (and as many of values), and the ``width`` of each."""

    queries: int
    keys: int
    width: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder with gated feed-forward blocks.

    ``sides``: name of linear layers -> their inputs plus outputs, summed over all layers of that name.
    ``head_norms``: whether the queries and keys of each head are normalised.
    """

    parameters: int
    vocabulary: int
    hidden: int
    layers: int
    heads: Heads
    mlp: int
    sides: Mapping[str, int]
    head_norms: bool

    @classmethod
    def qwen3(
        cls, parameters: int, vocabulary: int, hidden: int, layers: int, heads: Heads, mlp: int
    ) -> Shape:
        """The shape of a Qwen3, whose layers follow from its widths."""
        attention, keys = heads.queries * heads.width, heads.keys * heads.width
        widths = {"q_proj": attention, "k_proj": keys, "v_proj": keys, "o_proj": attention}
        widths |= {"gate_proj": mlp, "up_proj": mlp, "down_proj": mlp}
        sides = {name: layers * (hidden + width) for name, width in widths.items()}
        return cls(parameters, vocabulary, hidden, layers, heads, mlp, sides, head_norms=True)

    @property
    def attention(self) -> int:
        """Width of all queries of a token."""
        return self.heads.queries * self.heads.width

    @property
    def keys(self) -> int:
        """Width of all keys of a token."""
        return self.heads.keys * self.heads.width

    def splits_over(self, width: int) -> bool:
        """Whether vLLM can spread each layer over ``width`` GPUs: in equal parts, or with repeated keys."""
        few, many = sorted((self.heads.keys, width))
        return not (self.heads.queries % width or self.mlp % width or many % few)


_QWEN3_4B = Shape.qwen3(4_022_468_096, 151_936, 2560, 36, Heads(32, 8, 128), 9728)
KNOWN = {name: _QWEN3_4B for name in ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B-Thinking-2507")}
"""Shapes of the recipes' models (their published config.json), so that a dry run needs no download."""


def shape_of(model: Model) -> Shape:
    """The model's shape; exact for a tiny model if its tokenizer's training text fills the vocabulary.

    Raises ConfigError if the model is not on this machine, or none that transformers knows.
    """
    if model.kind == "tiny":
        heads = Heads(model.heads, model.kv_heads, HEAD_DIM)
        wide, keys = heads.queries * HEAD_DIM, heads.keys * HEAD_DIM
        attention = model.hidden * (2 * wide + 2 * keys) + 2 * HEAD_DIM
        layer = attention + 3 * model.hidden * model.mlp + 2 * model.hidden
        total = model.vocab_size * model.hidden + model.layers * layer + model.hidden
        return Shape.qwen3(total, model.vocab_size, model.hidden, model.layers, heads, model.mlp)
    if model.kind in KNOWN:
        return KNOWN[model.kind]
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from mappa_rl.models.lora import layers_for_adapters

    folder = model_folder(model.kind)
    try:
        config: Any = AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.device("meta"):
            untyped: Any = AutoModelForCausalLM
            made = untyped.from_config(config)
    except (OSError, ValueError, TypeError) as error:  # TypeError: a config that is no mapping
        raise ConfigError(f"model.kind={model.kind!r}: {error}") from None
    text = config.get_text_config()
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    mlp = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    sides = Counter[str]()
    for name, linear in layers_for_adapters(made):
        sides[name] += linear.in_features + linear.out_features
    return Shape(
        sum(parameter.numel() for parameter in made.parameters()),
        text.vocab_size,
        text.hidden_size,
        text.num_hidden_layers,
        Heads(heads, kv_heads, head_dim),
        mlp,
        sides,
        head_norms=any(name.endswith("q_norm") for name, _ in made.named_modules()),
    )


def adapter_parameters(shape: Shape, lora: Lora) -> int:
    """Parameters of one adapter: ``rank`` times (inputs + outputs), summed over its linear layers."""
    return lora.rank * sum(shape.sides[target] for target in lora.targets if target in shape.sides)
