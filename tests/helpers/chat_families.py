"""Tokenizers of well-known chat families: their marks, special tokens, kind of vocabulary and turn rules.

These are our own templates. They render system, user and assistant messages as the published ones do
(``test_chat_families`` compares, where a package with the published ones is installed); what is said there of
tools and images is left out. Vocabularies are trained on a few of the environment's texts, so ids are not
those of the models.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

_CHATML = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
_QWEN25 = (
    "{%- if messages[0].role != 'system' %}{{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. "
    "You are a helpful assistant.<|im_end|>\n' }}{%- endif %}" + _CHATML
)
_QWEN3 = (
    "{%- set ns = namespace(last=-1) %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}"
    "{%- endfor %}"
    "{%- for m in messages %}{%- set text = m.content %}{%- if m.role == 'assistant' %}"
    "{%- set thought = '' %}{%- if '</think>' in text %}"
    "{%- set thought = text.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}"
    "{%- set text = text.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
    "{%- if loop.index0 > ns.last and (loop.last or thought) %}"
    "{%- set text = '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + text.lstrip('\n') %}{%- endif %}"
    "{%- endif %}{{- '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
_LLAMA3 = (
    "{{- bos_token }}{%- set ns = namespace(system='') %}"
    "{%- if messages[0].role == 'system' %}{%- set ns.system = messages[0].content | trim %}"
    "{%- set messages = messages[1:] %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n' }}"
    "{{- 'Today Date: ' + strftime_now('%d %b %Y') + '\n\n' + ns.system + '<|eot_id|>' }}"
    "{%- for m in messages %}{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}"
    "{{- m.content | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
_R1_DISTILL = (
    "{{- bos_token }}{%- for m in messages %}{%- if m.role == 'system' %}{{- m.content }}{%- endif %}"
    "{%- endfor %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{{- '<｜User｜>' + m.content }}"
    "{%- elif m.role == 'assistant' %}{{- '<｜Assistant｜>' + m.content.split('</think>')[-1] }}"
    "{{- '<｜end▁of▁sentence｜>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<｜Assistant｜><think>\n' }}{%- endif %}"
)
_ALTERNATE = (
    "{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{%- endif %}"
)
_MISTRAL = (
    "{{- bos_token }}" + _ALTERNATE + "{%- if m.role == 'user' %}{{- '[INST] ' + m.content + ' [/INST]' }}"
    "{%- else %}{{- m.content + eos_token }}{%- endif %}{%- endfor %}"
)
_GEMMA = (
    "{{- bos_token }}"
    + _ALTERNATE
    + "{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) }}"
    "{{- '\n' + m.content | trim + '<end_of_turn>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{%- endif %}"
)
_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_THINK = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


@dataclass(frozen=True, slots=True)
class Family:
    """``plain``: added tokens that are not special, as the published tokenizers have them.

    ``pieces``: byte-level BPE as in GPT-2, or BPE over ``▁`` with bytes to fall back on. ``published``: the
    file that trl has of the family's template. ``strips``: earlier thinking is dropped.
    """

    name: str
    template: str
    specials: tuple[str, ...]
    eos: str
    bos: str | None = None
    plain: tuple[str, ...] = ()
    pieces: str = "bytes"
    published: str = ""
    strips: bool = False

    def tokenizer(self, texts: Sequence[str], vocab_size: int = 700) -> PreTrainedTokenizerFast:
        """A tokenizer of this family, trained on ``texts``."""
        made = (
            _byte_level(texts, vocab_size, self)
            if self.pieces == "bytes"
            else _spaced(texts, vocab_size, self)
        )
        made.add_tokens([AddedToken(text, special=False, normalized=False) for text in self.plain])
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=made,
            bos_token=self.bos,
            eos_token=self.eos,
            pad_token=self.specials[0],
            clean_up_tokenization_spaces=False,
            padding_side="left",
        )
        tokenizer.chat_template = self.template
        return tokenizer


FAMILIES = {
    family.name: family
    for family in (
        Family("qwen3", _QWEN3, _QWEN, "<|im_end|>", plain=_THINK, published="qwen3", strips=True),
        Family(
            "qwen3-thinking",
            _QWEN3.replace("assistant\n' }}", "assistant\n<think>\n' }}"),
            _QWEN,
            "<|im_end|>",
            plain=_THINK,
            strips=True,
        ),
        Family("qwen2.5", _QWEN25, _QWEN, "<|im_end|>", plain=_THINK[2:4], published="qwen2_5"),
        Family(
            "llama-3",
            _LLAMA3,
            (
                "<|finetune_right_pad_id|>",
                "<|begin_of_text|>",
                "<|end_of_text|>",
                "<|start_header_id|>",
                "<|end_header_id|>",
                "<|eot_id|>",
            ),
            "<|eot_id|>",
            "<|begin_of_text|>",
            published="llama3_2",
        ),
        Family(
            "r1-distill",
            _R1_DISTILL,
            ("<｜▁pad▁｜>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
            "<｜end▁of▁sentence｜>",
            "<｜begin▁of▁sentence｜>",
            ("<｜User｜>", "<｜Assistant｜>", *_THINK[:2]),
            published="deepseek_r1_distill",
            strips=True,
        ),
        Family(
            "mistral", _MISTRAL, ("<unk>", "<s>", "</s>", "[INST]", "[/INST]"), "</s>", "<s>", pieces="first"
        ),
        Family(
            "gemma",
            _GEMMA,
            ("<unk>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
            "<eos>",
            "<bos>",
            pieces="never",
            published="gemma",
        ),
    )
}


def _byte_level(texts: Sequence[str], vocab_size: int, family: Family) -> Tokenizer:
    made = Tokenizer(models.BPE())
    words = Regex(r"\p{L}+| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(t, special=True) for t in family.specials],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def _spaced(texts: Sequence[str], vocab_size: int, family: Family) -> Tokenizer:
    """As sentencepiece does: blanks are ``▁``, rare characters bytes; a blank goes before the text or not."""
    raw = [f"<0x{byte:02X}>" for byte in range(256)]
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    parts: list[decoders.Decoder] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if family.pieces == "first":
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        parts.append(decoders.Strip(" ", 1, 0))
    else:
        made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence(parts)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[*family.specials, *raw],
        show_progress=False,
        max_token_length=12,
    )
    made.train_from_iterator([line for text in texts for line in text.split("\n")], trainer)
    state = json.loads(made.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] not in raw]
    return Tokenizer.from_str(json.dumps(state))
