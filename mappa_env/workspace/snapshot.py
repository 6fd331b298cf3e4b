"""The state of a folder that hostile code wrote, as a scan finds it."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_ENTRIES = 5_000
MAX_DEPTH = 32
DIGEST = 64
"""Characters of a SHA-256 digest."""
MAX_PATH = 1_024
"""Characters of the longest path that a scan lists."""


@dataclass(frozen=True, slots=True)
class Entry:
    """``signature``: mode, inode, size, mtime_ns, ctime_ns, links, blocks. Code can forge all but ctime.

    ``accessed_ns``: the atime of a folder where only code can set it (mounted ``noatime``), else 0.
    ``left_mode``: the mode as the code left it, if the host has given access back since; None: it has not.
    """

    kind: str
    signature: tuple[int, ...]
    sha256: str
    accessed_ns: int = 0
    left_mode: int | None = field(default=None, compare=False)

    @property
    def mode(self) -> int:
        """Type and permissions, as ``st_mode``."""
        return self.signature[0]

    @property
    def permissions(self) -> int:
        """The permission bits as the code left them."""
        return stat.S_IMODE(self.mode if self.left_mode is None else self.left_mode)

    @property
    def inode(self) -> int:
        """The number that all names of one file share."""
        return self.signature[1]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.signature[2]

    @property
    def modified_ns(self) -> int:
        """The time of the last change of content (mtime), in nanoseconds."""
        return self.signature[3]

    @property
    def digested(self) -> bool:
        """Whether ``sha256`` is a digest, not the reason why there is none."""
        return len(self.sha256) == DIGEST

    @property
    def disk_bytes(self) -> int:
        """Bytes that the entry takes on the disk; holes take none."""
        return self.signature[6] * 512

    @property
    def changed_ns(self) -> int:
        """The time of the last change of content or metadata (ctime), in nanoseconds."""
        return self.signature[4]

    @property
    def links(self) -> int:
        """The number of names of the file."""
        return self.signature[5]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``entries`` by path; ``skipped`` counts new ones beyond the limits on number, depth and length.

    ``disk_bytes`` is the disk usage of the listed entries; ``taken_ns`` is when the scan began; ``top`` is
    the folder itself (None: it is missing).
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    skipped: int = 0
    disk_bytes: int = 0
    taken_ns: int = 0
    top: Entry | None = None

    def over(self, quota: int) -> bool:
        """Whether the folder held more than ``quota`` bytes, or than a scan lists."""
        return self.disk_bytes > quota or self.skipped > 0

    def note(self) -> str:
        """A line for the agent about what the limits excluded; empty if that is nothing."""
        if not self.skipped:
            return ""
        return (
            f"\n[{self.skipped} entries were removed from the workspace, with all below them: it may hold "
            f"{MAX_ENTRIES} files and folders, {MAX_DEPTH} levels, and paths of {MAX_PATH} characters]\n"
        )


def too_deep(path: str) -> bool:
    """Whether a path has more levels or characters than a scan lists."""
    return len(path) > MAX_PATH or path.count("/") >= MAX_DEPTH
