"""Who filled the workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mappa_env.types import FileChange
from mappa_env.workspace.snapshot import MAX_ENTRIES

FULL = "No space left on device"


def fullest(present: Mapping[str, FileChange]) -> FileChange | None:
    """The largest file of the agent that wrote most; None if no agent wrote any.

    Where files are many, their number counts, else their size.
    """
    many, used = 2 * len(present) > MAX_ENTRIES, Counter[str]()
    for change in present.values():
        used[change.agent] += 1 if many else change.size
    del used[""]
    if not used:
        return None
    most = max(used, key=lambda agent: used[agent])
    return max((change for change in present.values() if change.agent == most), key=lambda each: each.size)
