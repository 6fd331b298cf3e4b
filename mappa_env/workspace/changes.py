"""The changes between two states of a folder."""

from __future__ import annotations

import stat

from mappa_env.types import FileChange, FileOp
from mappa_env.workspace.escaping import shown
from mappa_env.workspace.snapshot import DIGEST, Entry, Snapshot

TOP = "."
"""The path of the workspace's own folder in the file history."""


def compare(before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
    """Changes from ``before`` to ``after``, sorted by path.

    A rename is two changes: ``renamed`` for the new path, ``deleted`` for the old one. A folder counts as
    modified if its mode, times or attributes changed; the entries in it have changes of their own.
    """
    old, new = before.entries, after.entries
    changes: list[FileChange] = []
    gone: dict[int, Entry] = {}
    for path, was in old.items():
        now = new.get(path)
        if now is None:
            gone[was.inode] = was
            changes.append(_change(path, "deleted", was))
        elif was.kind != now.kind:
            changes.append(_change(path, "type_changed", now))
        elif _altered(was, now) if now.kind == "dir" else was != now or _mode_changed(was, now):
            changes.append(_change(path, "modified", now, was))
    for path, now in new.items():
        if path not in old:
            source = gone.get(now.inode)
            moved = source is not None and _same(source, now)
            changes.append(_change(path, "renamed" if moved else "created", now, source if moved else None))
            if moved:
                del gone[now.inode]  # further names of it are hard links
    top, now_top = before.top, after.top
    if top and now_top and _altered(top, now_top):
        changes.append(_change(TOP, "modified", now_top, top))
    return tuple(sorted(changes, key=lambda change: change.path))


def apply(change: FileChange, present: dict[str, FileChange]) -> None:
    """Update ``present``, the last change of every existing file.

    Who writes the same content again, or changes only mode or times, has not changed the file.
    """
    was = present.get(change.path)
    if change.op == "deleted" or change.kind == "dir":
        present.pop(change.path, None)
    elif was is None or change.op != "modified" or _content(was) != _content(change):
        present[change.path] = change


def _content(change: FileChange) -> tuple[object, ...]:
    """What tells contents apart. Without a digest, every change may be one of content."""
    digested = len(change.sha256) == DIGEST
    return change.kind, change.links, change.sha256 if digested else (change.sha256, change.step)


def _same(was: Entry, now: Entry) -> bool:
    """Whether both are one entry. A rename keeps inode and content, though mode and time may change too."""
    if (was.kind, was.inode, was.size, was.sha256) != (now.kind, now.inode, now.size, now.sha256):
        return False
    return was.digested or was.modified_ns == now.modified_ns


def _altered(was: Entry, now: Entry) -> bool:
    """Whether code replaced a folder, or changed its mode, times, owner or attributes.

    An entry added or removed sets mtime and ctime to one value. All other changes set ctime alone.
    """
    if _mode_changed(was, now) or (was.inode, was.accessed_ns) != (now.inode, now.accessed_ns):
        return True
    return was.changed_ns != now.changed_ns != now.modified_ns


def _mode_changed(was: Entry, now: Entry) -> bool:
    """Whether the code changed the mode, even if the host has restored it since."""
    return now.permissions != stat.S_IMODE(was.mode)


def _change(path: str, op: FileOp, entry: Entry, was: Entry | None = None) -> FileChange:
    """``was``: what it is compared with; None: nothing, so only a mode that the host had to change counts."""
    mode = entry.permissions if op != "deleted" and _mode_changed(was or entry, entry) else None
    if entry.kind != "file":  # the size of a folder depends on the file system
        size = 0 if entry.kind == "dir" else entry.size
        return FileChange(shown(path), op, size, f"skipped: {entry.kind}", entry.kind, mode=mode)
    return FileChange(shown(path), op, entry.size, entry.sha256, entry.kind, links=entry.links, mode=mode)
