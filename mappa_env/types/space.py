"""The quota of a workspace, and its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """What an agent's files and folders take of a quota: ``size`` in bytes on the disk, and their number."""

    size: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Space:
    """The ``quota`` of a workspace, and who used how much of it before and after an action (host-attested).

    The writer of a file or the maker of a folder uses its space; the agent ``""`` is the task.
    """

    quota: Use
    before: Mapping[str, Use]
    after: Mapping[str, Use]
