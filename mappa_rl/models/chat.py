"""Chat messages to token ids and back, under the exact-prefix rule.

In training, a policy must see exactly the ids that it saw and produced when sampling. So ``open`` tokenises
the first prompt of a segment, and ``extend`` appends ids to make every later prompt; sampled ids are never
decoded and tokenised again. If the chat template rewrites the past (Qwen3 drops earlier ``<think>`` blocks),
the extended ids would be a context that the template never produces. ``extend`` then returns ``None``, and
the caller opens a new context, which starts a new training sample.

Some templates open the reply with ``<think>`` (DeepSeek-R1-Distill, Qwen3-Thinking). The ids of this opening
belong to the prompt. Its text belongs to the action, so that thinking can be told from the answer: ``decode``
prepends it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any

from jinja2 import TemplateError

from mappa_env import native_calls
from mappa_env.types import Message
from mappa_rl.errors import TokenizerError

_PROBE = "assistantreplyprobe"
"""A placeholder for the assistant's text, to find what the template puts around it."""
_USER: Message = {"role": "user", "content": _PROBE}
_ASSISTANT: Message = {"role": "assistant", "content": _PROBE}
_OPENED = re.compile(r"<think>\s*\Z")
_MARKS = {"<think>": "<think>", "</think>": "</think>", "[THINK]": "<think>", "[/THINK]": "</think>"} | {
    mark: mark for mark in native_calls.MARKS
}
"""Marks of thinking and calls that some tokenizers declare special, and how an action's text spells them."""
_TODAY = datetime.date(2025, 1, 1)
"""The date for templates that include one (Llama 3.2): prompts must not change from day to day."""


class ChatTokenizer:
    """Converts messages to ids and ids to text, with a Hugging Face tokenizer that has a chat template.

    ``stop_ids`` end a generation. They default to the token that the template puts after a reply, the
    tokenizer's end token and ``more_stop_ids`` (those of the model's generation config). ``opened`` is the
    text with which the template opens every reply: ``"<think>\\n"``, or usually nothing. The text of a
    message never becomes a special token, or another token that the template marks turns with: a space after
    the first letter breaks its spelling, so an agent cannot forge another agent's turn. Raises
    ``TokenizerError`` if the template or the end token is missing.
    """

    def __init__(
        self, tokenizer: Any, stop_ids: Sequence[int] = (), *, more_stop_ids: Sequence[int] = ()
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise TokenizerError("This tokenizer has no chat template; set tokenizer.chat_template first.")
        self.tokenizer = tokenizer
        added = {i: str(token) for i, token in tokenizer.added_tokens_decoder.items()}
        declared = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._special_ids = {*declared, *tokenizer.all_special_ids}
        self._marks = {i: added[i] for i in declared if added[i] in _MARKS}
        specials = {*(added[i] for i in declared), *tokenizer.all_special_tokens}
        self._broken = _any_of(specials)
        around = self.render([_USER, _ASSISTANT, _USER])  # not all declare the marks of turns special
        self._broken = _any_of({*specials, *(t for t in added.values() if t in around and t not in _MARKS)})
        opened = _OPENED.search(self.render([_USER]))
        self.opened = opened.group() if opened else ""
        self._closing = self.encode("\n</think>\n\n") if opened else []
        found = stop_ids or [*self._turn_end(), tokenizer.eos_token_id, *more_stop_ids]
        self.stop_ids: tuple[int, ...] = tuple(dict.fromkeys(i for i in found if i is not None))
        if not self.stop_ids:
            raise TokenizerError(
                "Neither this tokenizer nor its chat template has an end token: pass stop_ids."
            )

    def render(self, messages: Sequence[Message], prompt: bool = True) -> str:
        """Render messages with the chat template; ``prompt`` adds the opening of the assistant's turn.

        Raises ``TokenizerError`` if the template refuses them.
        """
        clean = [{**m, "content": self.readable(m["content"])} for m in messages]
        try:
            text: str = self.tokenizer.apply_chat_template(
                clean, tokenize=False, add_generation_prompt=prompt, strftime_now=_TODAY.strftime
            )
        except TemplateError as error:
            roles = [message["role"] for message in messages]
            raise TokenizerError(
                f"The chat template refuses messages of the roles {roles}: {error}. Use a template that "
                "takes user and assistant in turn."
            ) from error
        return text

    def encode(self, text: str) -> list[int]:
        """Tokenise rendered text (special tokens are recognised, none are added)."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def open(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the first prompt of a segment, including the opening of the assistant's turn."""
        return self.encode(self.render(messages))

    def extend(
        self,
        ids: Sequence[int],
        action_ids: Sequence[int],
        before: Sequence[Message],
        after: Sequence[Message],
    ) -> list[int] | None:
        """Ids of the next prompt of the same segment, or ``None`` if the past is no longer a prefix.

        ``ids`` is the previous prompt, ``before`` its messages, and ``action_ids`` the action sampled on it.
        ``after`` is ``before``, the assistant's reply (as ``decode`` returns it) and the new messages. The
        result is ``ids``, ``action_ids``, the end of the assistant's turn (unless it was sampled), the new
        messages and the next opening. White space around the reply in ``after`` may differ from the sampled
        ids, which count.
        """
        start = len(before)
        if len(after) <= start or list(after[:start]) != list(before) or after[start]["role"] != "assistant":
            return None
        head = self.render(before)
        probed = self.render(
            [*before, {**after[start], "content": self.opened + _PROBE}, *after[start + 1 :]]
        )
        space, found, tail = probed[len(head) :].partition(_PROBE)
        if not (probed.startswith(head) and head.endswith(self.opened) and found) or space.strip():
            return None
        reply = self.readable(self.decode(action_ids))
        full = self.render(after)
        if not (full.startswith(head) and full.endswith(tail) and len(full) >= len(head) + len(tail)):
            return None
        if full[len(head) - len(self.opened) : len(full) - len(tail)].strip() != reply.strip():
            return None
        new = self.encode(tail)
        if action_ids and new and action_ids[-1] in self.stop_ids and action_ids[-1] == new[0]:
            new = new[1:]
        return [*ids, *action_ids, *new]

    def decode(self, action_ids: Sequence[int]) -> str:
        """Text of an action: what the template opened the reply with, then the ids without special tokens.

        All ids decode; invalid UTF-8 becomes U+FFFD. Marks of calls stay, and those of thinking,
        as ``<think>`` and ``</think>``.
        """
        ids, skip = list(action_ids), not self._marks
        if not skip:
            ids = [i for i in ids if i in self._marks or i not in self._special_ids]
        text: str = self.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        for mark in self._marks.values():
            text = text.replace(mark, _MARKS[mark])
        return self.opened + text

    def reply(self, text: str) -> list[int]:
        """Ids of a demonstrated reply as the model should produce it: the text and the end token.

        If the template opens thinking, the ids begin by closing it, empty.
        """
        return [*self._closing, *self.encode(self.readable(text)), self.stop_ids[0]]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each token of ``reply(text)`` in the readable ``text``, in characters.

        (0, 0) for tokens outside the text: those that close the thinking, and the end token.
        """
        found: list[tuple[int, int]] = self.tokenizer(
            self.readable(text), add_special_tokens=False, return_offsets_mapping=True
        )["offset_mapping"]
        return [*[(0, 0)] * len(self._closing), *found, (0, 0)]

    def readable(self, text: str) -> str:
        """``text`` as it is tokenised inside a message: without surrogates and spelled special tokens."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # tokenizers refuse lone surrogates
        while self._broken.search(text):
            text = self._broken.sub(_apart, text)
        return text

    def _turn_end(self) -> list[int]:
        """The special token with which the template ends a reply, if there is one."""
        tail = self.encode(self.render([_USER, _ASSISTANT], prompt=False).rpartition(_PROBE)[2])
        return [i for i in tail if i in self._special_ids][:1]


def declared_stops(model: Any) -> list[int]:
    """The end tokens in a model's generation config, which may list more than the tokenizer has."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return [found] if isinstance(found, int) else list(found or [])


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches any of ``texts``, the longest first."""
    return re.compile("|".join(re.escape(t) for t in sorted(texts, key=len, reverse=True) if t) or r"(?!)")


def _apart(match: re.Match[str]) -> str:
    text = match.group()
    return f"{text[0]} {text[1:]}" if len(text) > 1 else " "
