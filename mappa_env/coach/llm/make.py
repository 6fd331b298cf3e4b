"""Language-model coaches by name. Coaches with the same options share limits, budget and cache."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach.llm.address import split_address
from mappa_env.coach.llm.breaker import Breaker
from mappa_env.coach.llm.buckets import Buckets
from mappa_env.coach.llm.budget import Budget
from mappa_env.coach.llm.cache import CallCache
from mappa_env.coach.llm.client import Client
from mappa_env.coach.llm.coach import LLMCoach
from mappa_env.coach.llm.models import Model, Rates, model
from mappa_env.coach.llm.server import Server
from mappa_env.coach.llm.settings import Settings, settings
from mappa_env.coach.llm.wire import Backend
from mappa_env.errors import CoachError, OptionError

FORMS = {
    "gemini": "gemini:<model>",
    "openai": "openai:<model>@<base_url>",
    "replay": "replay:<path of a recording>",
}


class _Registry:
    """Servers by specification: many environments share one provider's limits and one budget."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: weakref.WeakValueDictionary[str, Server] = weakref.WeakValueDictionary()

    def get(self, key: str, make: Callable[[], Server]) -> Server:
        with self._lock:
            found = self._shared.get(key)
            if found is None:
                found = self._shared[key] = make()
                weakref.finalize(found, _close, found.client, found.cache, found.pool)
            return found


_REGISTRY = _Registry()


def make_llm_coach(name: str, options: Mapping[str, Any], card: Card) -> LLMCoach:
    """Create the coach ``name``, of one of ``FORMS``, for ``card``. See ``Settings`` for the options.

    Raises OptionError, CardError, CoachError for an invalid recording, CoachStopped without a key.
    """
    kind, _, rest = name.partition(":")
    if not rest:
        raise OptionError(f"coach={name!r} is incomplete: write {FORMS[kind]}.")
    if card.coach is None:
        raise OptionError(
            f"coach={name!r}: the card {card.id} has no coach.yaml, so it has no questions for a model; "
            "use coach='rubric' or coach='off'."
        )
    if kind == "replay":
        return _replay(name, Path(rest), options, card)
    chosen = settings(name, options)
    shared = _REGISTRY.get(f"{name} {chosen.model_dump_json()}", lambda: _share(name, chosen))
    coach = LLMCoach(name, card, shared.model, chosen, shared)
    if shared.cache is not None:
        shared.cache.claim(f"coach of {card.id}", coach.identity)
    return coach


def _replay(name: str, path: Path, options: Mapping[str, Any], card: Card) -> LLMCoach:
    """The coach of a recording, without a server."""
    if options:
        raise OptionError(
            f"coach={name!r} takes no options, because the recording has them; remove {sorted(options)}."
        )
    cache = CallCache(path, read_only=True)
    found = cache.meta(f"coach of {card.id}")
    if found is None:
        raise CoachError(f"{path} has no verdicts of the card {card.id}.")
    recorded = Model(**{**found["model"], "rates": Rates()})
    coach = LLMCoach(found["name"], card, recorded, Settings(**found["answer"]), cache)
    if coach.identity != found:
        raise CoachError(
            f"{path} was recorded with {found['template']!r}, but this card uses {coach.template!r}: replay "
            "it with the version of the card that recorded it."
        )
    return coach


def _share(name: str, chosen: Settings) -> Server:
    kind, _, rest = name.partition(":")
    model_name, base_url = split_address(rest) if kind == "openai" else (rest, "")
    asked = model(
        model_name,
        price=chosen.price,
        limits=chosen.limits,
        thinking=chosen.thinking,
        temperature=chosen.temperature,
    )
    backend = _openai(asked, chosen, base_url) if kind == "openai" else _gemini(asked, chosen)
    client = Client(
        backend,
        Buckets(asked.rates),
        Budget(chosen.budget, asked.price, chosen.ledger),
        Breaker(chosen.breaker_failures, chosen.breaker_pause_s),
        chosen,
    )
    pool = ThreadPoolExecutor(chosen.concurrency, thread_name_prefix="coach")
    return Server(asked, client, CallCache(chosen.cache) if chosen.cache else None, pool)


def _close(client: Client, cache: CallCache | None, pool: ThreadPoolExecutor) -> None:
    client.close()
    pool.shutdown(wait=False, cancel_futures=True)
    if cache is not None:
        cache.close()


def _gemini(asked: Model, chosen: Settings) -> Backend:
    try:
        from mappa_env.coach.llm.gemini import GeminiBackend
    except ImportError as error:
        raise CoachError(
            f"coach 'gemini:...' needs google-genai: pip install 'mappa[gemini]' ({error})"
        ) from None
    return GeminiBackend(asked, chosen)


def _openai(asked: Model, chosen: Settings, base_url: str) -> Backend:
    from mappa_env.coach.llm.openai_compat import OpenAIBackend

    if not base_url:
        raise OptionError(f"coach='openai:{asked.name}' is incomplete: write {FORMS['openai']}.")
    return OpenAIBackend(asked, chosen, base_url)
