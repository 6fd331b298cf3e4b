"""Tiny policies from nothing: a tokenizer trained on the environment's own text, and a random Qwen3.

The tokenizer is byte-level BPE, so every text round-trips. What matters for a small model is *copying*: a
number or a name must be the same tokens in the prompt and in the code. Digits are therefore single tokens
that never swallow a neighbour, and the text is split before BPE by a pattern, so merges stay inside a piece:

* ``style="math"``: words, digits, runs of backquotes, and single symbols and white space.
* ``style="code"``: dotted names are one piece (``pd.read_csv``), runs of symbols are another (``=['``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from mappa_rl.errors import TokenizerError

SPECIALS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
"""Special tokens, in id order from 0. ``<|end|>`` closes what the assistant says, and nothing else."""

MIN_VOCAB = 256 + len(SPECIALS)
"""All bytes and the special tokens: a vocabulary without a single merge."""

PATTERNS = {
    "math": r"\\?[A-Za-z_]+| ?[A-Za-z_]+|\d|`+|\s|[^\sA-Za-z_0-9`]",
    "code": r" ?[A-Za-z_][A-Za-z_0-9.]*|\d| ?[^\sA-Za-z_0-9]+|\s",
}

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}"
    "{% if m['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int = 320,
    style: Literal["math", "code"] = "math",
    max_len: int = 512,
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with a chat template on ``texts``.

    ``vocab_size`` counts bytes and special tokens too (at least 261); with little text the vocabulary stays
    smaller. The same texts in the same order give the same tokenizer. Raises ``TokenizerError``.
    """
    if style not in PATTERNS:
        raise TokenizerError(f"Tokenizer style {style!r} is not offered; choose from {sorted(PATTERNS)}.")
    if vocab_size < MIN_VOCAB:
        raise TokenizerError(f"vocab_size={vocab_size} cannot hold all bytes; use at least {MIN_VOCAB}.")
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS[style]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        additional_special_tokens=["<|system|>", "<|user|>", "<|assistant|>"],
        model_max_length=max_len,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_qwen3(
    tokenizer: PreTrainedTokenizerFast,
    hidden: int = 128,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 32,
    mlp: int = 256,
    init: float = 0.08,
    rope_theta: float = 1000.0,
    max_len: int = 512,
    seed: int = 0,
) -> Qwen3ForCausalLM:
    """Build a random Qwen3 for ``tokenizer``: tied embeddings, fp32, 337 k parameters at vocabulary 320.

    ``init`` (standard deviation of the weights) and ``rope_theta`` are far from the defaults of large models
    (0.02 and 10,000 to 1,000,000): with those, a model of this size hardly learns to copy in minutes.
    The global random state is left as it was.
    """
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=mlp,
        initializer_range=init,
        max_position_embeddings=max_len,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model.float()
