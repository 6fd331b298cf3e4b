"""Chat messages to token ids and back, under the exact-prefix rule.

A policy must see, in training, exactly the ids it saw and produced when sampling. So the first prompt of a
stay is tokenised once (``open``), and every later prompt is *grown* from the ids that are already there
(``extend``): sampled ids are never decoded and tokenised again. Where the chat template rewrites the past
(Qwen3 drops earlier ``<think>`` blocks), growing would train on a context the template never produces;
``extend`` then answers ``None`` and the caller opens a new context, which starts a new training sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mappa_env.types import Message
from mappa_rl.errors import TokenizerError

_PROBE = "assistantreplyprobe"
"""Stands in for the assistant's text to find what the template puts after it; no template touches it."""


class ChatTokenizer:
    """A Hugging Face tokenizer with a chat template, seen as two functions: messages to ids, ids to text.

    ``stop_ids`` end a generation (default: the tokenizer's end token). Texts of messages can never produce
    special tokens: a special token's spelling inside a message is broken by a space after its first letter,
    so an agent cannot forge a turn of somebody else. Raises ``TokenizerError`` without template or end token.
    """

    def __init__(self, tokenizer: Any, stop_ids: Sequence[int] = ()) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise TokenizerError("This tokenizer has no chat template; set tokenizer.chat_template first.")
        if not stop_ids and tokenizer.eos_token_id is None:
            raise TokenizerError("This tokenizer has no end token; pass stop_ids.")
        self.tokenizer = tokenizer
        self.stop_ids: tuple[int, ...] = tuple(stop_ids) or (tokenizer.eos_token_id,)
        self._specials = tuple(sorted((t for t in tokenizer.all_special_tokens if t), key=len, reverse=True))

    def render(self, messages: Sequence[Message], prompt: bool = True) -> str:
        """Render messages through the chat template; ``prompt`` adds the opening of the assistant's turn."""
        clean = [{**m, "content": self.readable(m["content"])} for m in messages]
        text: str = self.tokenizer.apply_chat_template(clean, tokenize=False, add_generation_prompt=prompt)
        return text

    def encode(self, text: str) -> list[int]:
        """Tokenise rendered text (special tokens are recognised, none are added)."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def open(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the first prompt of a stay, up to and with the opening of the assistant's turn."""
        return self.encode(self.render(messages))

    def extend(
        self,
        ids: Sequence[int],
        action_ids: Sequence[int],
        before: Sequence[Message],
        after: Sequence[Message],
    ) -> list[int] | None:
        """Ids of the next prompt of the same stay, or ``None`` where the past no longer is a prefix.

        ``ids`` is the previous prompt and ``before`` its messages; ``action_ids`` was sampled on it;
        ``after`` is ``before`` + the assistant's reply + what is new. The answer starts with ``ids`` +
        ``action_ids``, followed by the end of the assistant's turn (unless sampled), the new messages and
        the next opening. White space around the reply may differ: the sampled ids hold the truth.
        """
        start = len(before)
        if len(after) <= start or list(after[:start]) != list(before) or after[start]["role"] != "assistant":
            return None
        head = self.render(before)
        probe = [*before, {**after[start], "content": _PROBE}, *after[start + 1 :]]
        probed = self.render(probe)
        if not probed.startswith(head + _PROBE):
            return None
        tail = probed[len(head) + len(_PROBE) :]
        reply = self.readable(self.decode(action_ids))
        full = self.render(after)
        if not (full.startswith(head) and full.endswith(tail) and len(full) >= len(head) + len(tail)):
            return None
        if full[len(head) : len(full) - len(tail)].strip() != reply.strip():
            return None
        new = self.encode(tail)
        if action_ids and new and action_ids[-1] in self.stop_ids and action_ids[-1] == new[0]:
            new = new[1:]
        return [*ids, *action_ids, *new]

    def decode(self, action_ids: Sequence[int]) -> str:
        """Text of an action without special tokens. Any ids decode; bad UTF-8 becomes U+FFFD."""
        text: str = self.tokenizer.decode(
            list(action_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def reply(self, text: str) -> list[int]:
        """Ids of a demonstrated reply as the model should have produced it: the text and the end token."""
        return [*self.encode(self.readable(text)), self.stop_ids[0]]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of ``encode(text)`` begins and ends in ``text``, in characters."""
        found: list[tuple[int, int]] = self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True
        )["offset_mapping"]
        return found

    def readable(self, text: str) -> str:
        """``text`` as it is tokenised inside a message: without surrogates and spellings of specials."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # tokenizers refuse lone surrogates
        for special in self._specials:
            while special in text:
                text = text.replace(special, f"{special[0]} {special[1:]}")
        return text
