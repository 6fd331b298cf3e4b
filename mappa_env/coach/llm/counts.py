"""The tokens that an OpenAI-compatible server counts. What is no count is unknown, and discards no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.coach.llm.wire import Usage

_MOST = 10**9
"""No call has more tokens."""
_DIGITS = 16


def usage_of(body: Mapping[str, Any]) -> tuple[Usage, str]:
    """(the tokens of an answer, what is odd about their counts); unknown ones are 0."""
    odd: list[str] = []

    def part(whole: Any, key: str) -> Any:
        if whole is None or isinstance(whole, dict):
            return (whole or {}).get(key)
        odd.append(f"{whole!r:.60} where an object should be")
        return None

    def count(value: Any, *, needed: bool = False) -> int:
        if value is None and not needed:
            return 0
        found = _count(value)
        if found is None:
            odd.append(f"{value!r:.60} where a number of tokens should be")
        return found or 0

    counts = body.get("usage")
    thoughts = count(part(part(counts, "completion_tokens_details"), "reasoning_tokens"))
    usage = Usage(
        count(part(counts, "prompt_tokens"), needed=True),
        count(part(part(counts, "prompt_tokens_details"), "cached_tokens")),
        max(count(part(counts, "completion_tokens"), needed=True) - thoughts, 0),
        thoughts,
        known=not odd,
    )
    return usage, odd[0] if odd else ""


def _count(value: Any) -> int | None:
    """A number of tokens; servers may write it as text, or with a decimal point. None: it is none."""
    if isinstance(value, str) and len(value) < _DIGITS and value.strip().isdecimal():
        value = int(value)
    whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    return int(value) if whole and 0 <= value <= _MOST else None
