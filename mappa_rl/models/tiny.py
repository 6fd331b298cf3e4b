"""Tiny policies from scratch: a tokenizer trained on the environment's text, and a random Qwen3.

The tokenizer is byte-level BPE, so every text round-trips. A small model must be able to *copy*: a number or
a name must have the same tokens in the prompt and in the code. Every digit is therefore a token, never merged
with its neighbours, and a pattern splits the text before BPE, so that merges stay inside a piece.
``model.tokenizer_style`` names the pattern:

* ``math``: pieces are words, digits, runs of backquotes, and single symbols and white space.
* ``code``: a dotted name is one piece (``pd.read_csv``), and so is a run of symbols (``=['``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from mappa_rl.config import Model
from mappa_rl.models.shape import HEAD_DIM

SPECIALS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
"""Special tokens, in id order from 0. ``<|end|>`` closes what the assistant says, and nothing else."""

PATTERNS = {
    "math": r"\\?[A-Za-z_]+| ?[A-Za-z_]+|\d|`+|\s|[^\sA-Za-z_0-9`]",
    "code": r" ?[A-Za-z_][A-Za-z_0-9.]*|\d| ?[^\sA-Za-z_0-9]+|\s",
}

INIT, ROPE_THETA = 0.08, 1000.0
"""Standard deviation of random weights, and base of the rotary position encoding.

Large models have 0.02, and 10,000 to 1,000,000. With those values, a model of this size hardly learns to copy
in minutes.
"""

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}"
    "{% if m['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], model: Model) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with a chat template on ``texts``.

    Uses ``vocab_size``, ``tokenizer_style`` and ``max_len`` of the ``model`` section. With little text the
    vocabulary is smaller. The same texts in the same order give the same tokenizer.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS[model.tokenizer_style]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=model.vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    untyped: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = untyped(
        tokenizer_object=bpe,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        additional_special_tokens=["<|system|>", "<|user|>", "<|assistant|>"],
        model_max_length=model.max_len,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_qwen3(tokenizer: PreTrainedTokenizerFast, model: Model, *, seed: int) -> Qwen3ForCausalLM:
    """Build a random Qwen3 with the sizes of the ``model`` section: tied embeddings, fp32.

    It has the vocabulary of ``tokenizer``. The global random state does not change.
    """
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=model.hidden,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.kv_heads,
        head_dim=HEAD_DIM,
        intermediate_size=model.mlp,
        initializer_range=INIT,
        max_position_embeddings=model.max_len,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = _qwen3(config)
    made.generation_config.eos_token_id = tokenizer.eos_token_id
    made.generation_config.pad_token_id = tokenizer.pad_token_id
    return made


def _qwen3(config: Qwen3Config) -> Qwen3ForCausalLM:
    untyped: Any = Qwen3ForCausalLM
    made: Qwen3ForCausalLM = untyped(config).float()
    return made
