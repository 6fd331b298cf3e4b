"""Who filled the workspace."""

from __future__ import annotations

from collections.abc import Mapping

from mappa_env.types import Use

FULL = "No space left on device"


def filler_of(quota: Use, used: Mapping[str, Use], agent: str = "") -> tuple[str, str] | None:
    """Who took most of ``quota``, and how much of it, in words; what ``agent`` uses does not count.

    None unless those others left less than they took. The task's files have a quota of their own.
    """
    found: list[tuple[float, str, str]] = []
    for what, unit, shift in (("size", "MB", 20), ("entries", "files and folders", 0)):
        taken = {who: int(getattr(use, what)) for who, use in used.items()}
        room = int(getattr(quota, what)) - taken.pop("", 0)
        taken.pop(agent, None)
        if 2 * sum(taken.values()) > room:
            most = max(taken, key=lambda who: taken[who])
            words = f"its agent took {taken[most] >> shift} of {room >> shift} {unit}"
            found.append((sum(taken.values()) / max(room, 1), most, words))
    return max(found)[1:] if found else None
