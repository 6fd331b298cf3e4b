"""The completion probe: who has read a problem can go on where its text was cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mappa_env.coach.llm.wire import TOO_LONG
from mappa_env.evaluation.participant import Said
from mappa_env.parsing import split_thinking
from mappa_env.types import Message

CHARS = 60
"""Characters of the withheld text that must follow verbatim."""
_ASK = (
    "The following is the beginning of a competition problem. Continue its text exactly as it was published, "
    "word for word. Write nothing but the continuation.\n\n"
)
Speak = Callable[[Sequence[Message], int], Said]


@dataclass(frozen=True, slots=True)
class Continued:
    """``verbatim``: whether the first ``CHARS`` characters of the rest came back; ``said``: what came."""

    task_id: str
    verbatim: bool
    said: str


def cut(prompt: str) -> tuple[str, str] | None:
    """The first half of a text by words, and the rest; None if the rest is shorter than ``CHARS``."""
    words = re.findall(r"\S+\s*", prompt)
    half = len(words) // 2
    rest = _flat("".join(words[half:]))
    return ("".join(words[:half]).rstrip(), rest) if half and len(rest) >= CHARS else None


def probe(speak: Speak, tasks: Iterable[tuple[str, str]], *, threads: int, seed: int = 0) -> list[Continued]:
    """Ask for each (id, prompt) that is long enough. ``speak`` may be called from ``threads`` threads.

    Texts that do not fit the model's context are left out. Raises what ``speak`` raises: an answer that is
    missing is no sign of anything.
    """
    asked = [(task, *halves) for task, prompt in tasks if (halves := cut(prompt)) is not None]

    def one(item: tuple[str, str, str]) -> Continued | None:
        task, first, rest = item
        said = speak([{"role": "user", "content": _ASK + first}], seed)
        if said.flaw == TOO_LONG:
            return None
        text = split_thinking(said.text)[1]
        return Continued(task, continues(text, first, rest), text)

    with ThreadPoolExecutor(threads) as pool:
        return [each for each in pool.map(one, asked) if each is not None]


def continues(said: str, first: str, rest: str) -> bool:
    """Whether ``said`` begins with the first ``CHARS`` characters of ``rest``; it may repeat ``first``."""
    flat = _flat(said).removeprefix(_flat(first)).lstrip(" .…")
    return flat.startswith(rest[:CHARS].lstrip(" .…"))


def _flat(text: str) -> str:
    return " ".join(text.split())
