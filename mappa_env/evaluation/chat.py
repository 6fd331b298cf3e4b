"""A model behind an OpenAI-compatible server as the one who acts."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach.llm.address import problem_of, split_address
from mappa_env.coach.llm.breaker import Breaker
from mappa_env.coach.llm.buckets import Buckets
from mappa_env.coach.llm.budget import Budget
from mappa_env.coach.llm.client import Client
from mappa_env.coach.llm.completions import Completed, Completions
from mappa_env.coach.llm.models import Model, model
from mappa_env.coach.llm.rejections import Rejections
from mappa_env.coach.llm.settings import Calls, validated
from mappa_env.coach.llm.wire import REFUSED, ROOM, Late, Passing, Rejected, Reply, Request
from mappa_env.episode.episode import Episode
from mappa_env.errors import EvaluationError, OptionError
from mappa_env.evaluation.episodes import Tokens
from mappa_env.evaluation.keys import refuse_keys
from mappa_env.evaluation.pace import paced
from mappa_env.evaluation.participant import Act, Said
from mappa_env.evaluation.patience import Patience
from mappa_env.types import Message

TRUNCATED = "truncated"
"""The flaw of an action that the server cut; ``TOO_LONG`` and ``REFUSED`` are the others."""


@dataclass(frozen=True, slots=True)
class Turn(Request):
    """A conversation to continue. ``sample``: the seed of the answer."""

    messages: tuple[Message, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the messages, an upper bound of their tokens."""
        return sum(len(each["content"].encode("utf-8", "replace")) + ROOM for each in self.messages)


class ChatBackend:
    """Continues conversations. A refusal is an answer without content, a cut answer is one as it is."""

    name = "openai"

    def __init__(self, asked: Model, settings: Calls, base_url: str) -> None:
        self._model = asked
        self._server = Completions(asked.name, base_url, settings)
        self._sampling = {} if settings.temperature is None else {"temperature": settings.temperature}
        self._extra = dict(settings.extra)

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """See ``Backend.complete``."""
        assert isinstance(request, Turn)
        answered = self._server.post(self._body(request), time.monotonic() + timeout_s)
        if answered.status != 200:
            raise self._server.rejected(answered) or self._server.failure(answered)
        found = self._server.read(answered.body)
        return Spoken(said(found), found.usage, found.version, found.number, _flaw(found))

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _body(self, turn: Turn) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model.name,
            "messages": [dict(message) for message in turn.messages],
            "max_completion_tokens": turn.max_output_tokens,
        }
        if self._model.sampling:
            body |= {"seed": turn.sample, **self._sampling}
        return body | self._extra


@dataclass(frozen=True, slots=True)
class Spoken(Reply):
    """A reply as an action. ``flaw``: ``truncated``, ``refused`` or empty."""

    flaw: str = ""


class Chat:
    """A model by its specification: ``openai:<model>@<base_url>`` with the options of ``Calls``. Thread-safe.

    Raises OptionError for an invalid specification.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        refuse_keys({"name": name, **options}, "the model")
        kind, _, rest = name.partition(":")
        self.model, self.base_url = split_address(rest)
        if kind != "openai" or not self.model or not self.base_url:
            raise OptionError(f"model {name!r} must look like openai:<model>@http://localhost:8000/v1.")
        if why := problem_of(self.base_url):
            raise OptionError(f"model {self.model!r}: base_url {why}.")
        self.name = name
        self.settings = paced(validated(Calls, options, f"model {name!r}"))
        chosen = self.settings
        asked = model(
            self.model,
            price=chosen.price,
            limits=chosen.limits,
            thinking=chosen.thinking,
            temperature=chosen.temperature,
        )
        self.price = asked.price
        self._rejections = Rejections(
            "lower --max-tokens, choose shorter --prompts, or a model with a longer context."
        )
        self._client = Client(
            ChatBackend(asked, chosen, self.base_url),
            Buckets(asked.rates),
            Budget(chosen.budget, asked.price, chosen.ledger),
            Breaker(chosen.breaker_failures, chosen.breaker_pause_s),
            chosen,
            Patience(chosen),
        )

    def recall(self, versions: Collection[str]) -> None:
        """Go on where others of these names have answered; empty names are unknown ones.

        Raises EvaluationError if this would mix the answers of two models.
        """
        if versions:
            self._rejections.recalled()
        names = sorted(filter(None, versions))
        required = self.settings.version
        if len(names) > 1 or (names and required not in (None, names[0])):
            asked = f", and version={required!r} is required" if required else ""
            raise EvaluationError(
                f"{self.name} has answered as {' and '.join(map(repr, names))} in this folder{asked}: an "
                "evaluation must not mix the answers of two models, so choose another --out."
            )
        self._client.version = names[0] if names else required

    def check(self, card: Card, agent: str) -> None:
        """A model can be asked for anything."""

    def sit(self, episode: Episode) -> Act:
        """See ``Participant.sit``."""
        return lambda seed: self.speak(episode.messages(), seed)

    def speak(self, messages: Sequence[Message], seed: int) -> Said:
        """Continue a conversation. A prompt that the model cannot take gives an empty action with a flaw.

        Raises Passing at the deadline, Rejected for another fault of this request, CoachStopped for good and
        if the server is away.
        """
        turn = Turn("", (), {}, self.settings.max_output_tokens, seed, tuple(messages))
        try:
            answer = self._client.ask(turn)
        except Rejected as no:
            self._rejections.count(no)
            if not no.kind:
                raise
            nothing = Tokens(no.calls, no.calls - 1, dollars=0.0 if self.price else None)
            return Said("", self._client.version or "", nothing, no.kind)
        except Late as late:
            most = min(self.settings.timeout_s, self.settings.deadline_s)
            failed = Passing(f"{late}: a call may take {most:g} s; raise --timeout, or lower --max-tokens")
            failed.calls = late.calls
            raise failed from None
        self._rejections.answered()
        reply = answer.reply
        assert isinstance(reply, Spoken)
        usage = reply.usage
        spent = Tokens(
            answer.attempts,
            answer.attempts - 1,
            usage.prompt,
            usage.cached,
            usage.output,
            usage.thoughts,
            self.price.of(usage) if self.price and usage.known else None,
            0 if usage.known else 1,
        )
        return Said(reply.text, reply.model_version, spent, reply.flaw)

    def close(self) -> None:
        """Close the connections; waiting threads get CoachStopped."""
        self._client.close()


def said(found: Completed) -> str:
    """The action: thoughts that the server keeps apart come first, in the form of chat templates."""
    text = found.text or found.refusal
    return f"<think>\n{found.thoughts}\n</think>\n\n{text}" if found.thoughts else text


def _flaw(found: Completed) -> str:
    if found.finish == "content_filter" or found.refusal:
        return REFUSED
    return TRUNCATED if found.finish == "length" else ""
