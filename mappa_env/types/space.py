"""The quota of a workspace, and its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_LITTLE, _FEW = 2**20, 8
"""Bytes and entries: with less than either, a workspace is full."""


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

    @property
    def full_before(self) -> bool:
        """Whether next to nothing of the quota was left before the action."""
        return self._full(self.before)

    @property
    def full_after(self) -> bool:
        """Whether next to nothing of the quota was left after the action."""
        return self._full(self.after)

    def _full(self, used: Mapping[str, Use]) -> bool:
        entries = self.quota.entries - sum(use.entries for use in used.values())
        return entries < _FEW or self.quota.size - sum(use.size for use in used.values()) < _LITTLE
