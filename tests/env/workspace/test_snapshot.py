"""The diff of two scans against a model of the changes, and its properties for any two snapshots."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.workspace import digests
from mappa_env.workspace.changes import compare
from mappa_env.workspace.escaping import shown
from mappa_env.workspace.scanning import scan
from mappa_env.workspace.snapshot import Entry, Snapshot
from mappa_env.workspace.workspace import Workspace

NAMES = ["a", "b", "d/a", "d/b", "e/f/a", "ü\n\\", "\udcff"]
names = st.sampled_from(NAMES)
actions = st.lists(
    st.tuples(st.just("write"), names, st.binary(max_size=2))
    | st.tuples(st.sampled_from(["delete", "touch", "chmod"]), names)
    | st.tuples(st.sampled_from(["move", "link", "copy"]), names, names),
    max_size=12,
)


def carry_out(root: str, files: dict[str, bytes], done: list[Any]) -> None:
    """Apply the change to the folder and to the model; skip it in both if it is impossible."""

    def write(name: str, content: bytes) -> None:
        with open(os.path.join(root, name), "wb") as file:
            file.write(content)
        files[name] = content
        for other in files:  # its hard links
            if os.path.samefile(os.path.join(root, other), os.path.join(root, name)):
                files[other] = content

    for verb, name, *rest in done:
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if verb == "write":
            write(name, rest[0])
        elif name not in files:
            continue
        elif verb == "delete":
            os.unlink(path)
            del files[name]
        elif verb == "touch":
            os.utime(path, (1, 1))
        elif verb == "chmod":
            os.chmod(path, 0o600)
        elif rest and rest[0] != name:
            target = os.path.join(root, rest[0])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if rest[0] in files and os.path.samefile(path, target):
                continue
            if verb == "move":
                os.replace(path, target)
                files[rest[0]] = files.pop(name)
            elif verb == "copy":
                write(rest[0], files[name])
            else:
                if rest[0] in files:
                    os.unlink(target)
                os.link(path, target)
                files[rest[0]] = files[name]


@settings(max_examples=80, deadline=None)
@given(first=actions, second=actions)
def test_the_file_history_says_what_was_done(first: list[Any], second: list[Any]) -> None:
    with Workspace() as workspace:
        files: dict[str, bytes] = {}
        root = str(workspace.path)
        known: dict[str, bytes] = {}
        for step, done in enumerate((first, second)):
            before = workspace.snapshot
            carry_out(root, files, done)
            changes = workspace.changes(before, workspace.scan())
            workspace.record(changes, "agent_0", step)
            assert len({change.path for change in changes}) == len(changes)
            left = {change.path: change for change in changes if change.kind != "dir"}
            for name in NAMES:
                change = left.pop(shown(name), None)
                if change is None:
                    assert files.get(name) == known.get(name)
                elif change.op == "deleted":
                    assert name in known
                    assert name not in files
                else:
                    assert change.sha256 == hashlib.sha256(files[name]).hexdigest()
                    assert change.size == len(files[name])
                    assert (change.op == "modified") == (name in known)
                    assert change.op in ("modified", "created", "renamed")
            assert left == {}
            known = dict(files)
            assert set(workspace.present) == {shown(name) for name in files}


def entry(draw: tuple[str, int, str]) -> Entry:
    kind, inode, text = draw
    digest = hashlib.sha256(text.encode()).hexdigest() if kind == "file" else ""
    return Entry(kind, (0, inode, len(text), 0, inode, 1, 8), digest)


entries = st.builds(
    entry,
    st.tuples(
        st.sampled_from(["file", "dir", "link", "fifo"]), st.integers(0, 5), st.sampled_from(["", "x", "y"])
    ),
)
snapshots = st.dictionaries(st.sampled_from("abcdef"), entries).map(Snapshot)


def visible(snapshot: Snapshot) -> Mapping[str, str]:
    return {path: entry.kind for path, entry in snapshot.entries.items()}


@given(snapshots)
def test_nothing_happened_between_a_scan_and_itself(snapshot: Snapshot) -> None:
    assert compare(snapshot, snapshot) == ()


@given(snapshots, snapshots)
def test_changes_lead_from_one_scan_to_the_other(before: Snapshot, after: Snapshot) -> None:
    changes = compare(before, after)
    assert [change.path for change in changes] == sorted({change.path for change in changes})
    kinds = dict(visible(before))
    gone = {change.sha256 for change in changes if change.op == "deleted"}
    for change in changes:
        if change.op == "deleted":
            kinds.pop(change.path)
        else:
            kinds[change.path] = change.kind
        if change.op == "renamed":
            assert change.sha256 in gone
    assert kinds == visible(after)


def test_the_limits_on_digests_invent_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first scan's budget excludes the second file; the next scan knows the first, so it includes it."""
    monkeypatch.setattr(digests, "MAX_HASH_TOTAL", 10)
    with Workspace() as workspace:
        for name in ("a", "b"):
            (workspace.path / name).write_bytes(b"12345678")
        first = workspace.scan()
        assert [entry.digested for entry in first.entries.values()] == [True, False]
        settled = Snapshot(first.entries, taken_ns=first.taken_ns)
        (workspace.path / "a").unlink()
        second = scan(workspace.path, settled)
        assert [(change.path, change.op) for change in compare(settled, second)] == [("a", "deleted")]
