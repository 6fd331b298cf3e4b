"""The resources that coaches of one specification share: client, cache and threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mappa_env.coach.llm.cache import CallCache
from mappa_env.coach.llm.client import Client
from mappa_env.coach.llm.models import Model


@dataclass(eq=False)
class Server:
    """Shared by all coaches of this process with equal options, with one budget and one set of limits."""

    model: Model
    client: Client
    cache: CallCache | None
    pool: ThreadPoolExecutor
    """One thread per call in flight, started on demand."""
