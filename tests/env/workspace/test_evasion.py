"""Ways around the file history that need no sandbox: folders, holes, hard links, names and modes."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.errors import WorkspaceError
from mappa_env.types import FileChange, ToolResult, Use
from mappa_env.workspace import digests
from mappa_env.workspace.digests import Digester
from mappa_env.workspace.scanning import usage
from mappa_env.workspace.snapshot import MAX_DEPTH, MAX_PATH
from mappa_env.workspace.workspace import Workspace
from nobody import needs_root, run_as_nobody

BLOCK = 2**16


def ops(workspace: Workspace) -> dict[str, str]:
    """The changes since the last scan, by path."""
    before = workspace.snapshot
    return {change.path: change.op for change in workspace.changes(before, workspace.scan())}


# -- folders ----------------------------------------------------------------------------------------------


def test_folders_are_entries(workspace: Workspace) -> None:
    for name in ("kept/a", "moved/a", "gone/a", "closed/a"):
        workspace.put(name, name.encode())
    assert ops(workspace) == {}
    root = workspace.path
    (root / "kept" / "b").write_bytes(b"1")
    (root / "kept" / "a").unlink()
    (root / "moved").rename(root / "here")
    (root / "gone" / "a").unlink()
    (root / "gone").rmdir()
    (root / "empty").mkdir()
    (root / "closed").chmod(0o500)
    assert ops(workspace) == {
        "kept/a": "deleted",
        "kept/b": "created",
        "moved": "deleted",
        "moved/a": "deleted",
        "here": "renamed",
        "here/a": "renamed",
        "gone": "deleted",
        "gone/a": "deleted",
        "empty": "created",
        "closed": "modified",
    }
    assert ops(workspace) == {}


def test_readers_of_a_result_see_files_only() -> None:
    """A folder in place of a file removes it; other folders are neither written nor deleted files."""

    def change(path: str, op: str, kind: str) -> FileChange:
        return FileChange(path, op, 0, f"skipped: {kind}", kind)  # type: ignore[arg-type]

    files = (
        change(".", "modified", "dir"),
        change("made", "created", "dir"),
        change("gone", "deleted", "dir"),
        change("a.csv", "type_changed", "dir"),
        change("b.csv", "type_changed", "file"),
        change("c.csv", "deleted", "file"),
        change("d.csv", "created", "file"),
    )
    result = ToolResult("ok", 0, "", "", files=files)
    assert result.written == ("b.csv", "d.csv")
    assert result.deleted == ("a.csv", "c.csv")


def test_names_that_no_scan_would_list_are_refused(workspace: Workspace) -> None:
    for name in ("d/" * MAX_DEPTH + "a", "d" * 200 + "/" + ("d" * 200 + "/") * 4 + "d" * 100):
        with pytest.raises(WorkspaceError, match=f"{MAX_DEPTH} levels and {MAX_PATH} characters"):
            workspace.put(name, b"1")
    workspace.put("d/" * (MAX_DEPTH - 1) + "a", b"1")
    assert workspace.scan().skipped == 0


def test_the_poll_of_the_size_sees_what_is_too_deep(workspace: Workspace) -> None:
    os.makedirs(workspace.path / "/".join("d" * MAX_DEPTH))
    assert usage(workspace.path) < 2**20 * MAX_DEPTH
    os.makedirs(workspace.path / "/".join("d" * (MAX_DEPTH + 1)))
    assert usage(workspace.path) > 2**60


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="needs extended attributes")
def test_attributes_are_stripped_and_their_writer_is_listed(workspace: Workspace) -> None:
    workspace.put("sub/a", b"1")
    workspace.scan()
    root = workspace.path
    try:
        os.setxattr(root / "sub", "user.x", b"7")
    except OSError as error:
        pytest.skip(f"this file system keeps none: {error}")
    os.setxattr(root / "sub" / "a", "user.x", b"7")
    os.setxattr(root, "user.x", b"7")
    (root / "sub" / "x").write_bytes(b"")
    (root / "sub" / "x").unlink()
    assert ops(workspace) == {".": "modified", "sub": "modified", "sub/a": "modified"}
    assert [os.listxattr(root / name) for name in (".", "sub", "sub/a")] == [[], [], []]
    assert ops(workspace) == {}


CLOSING = """
with Workspace() as workspace:
    workspace.put("train.csv", b"1")
    before, root = workspace.scan(), workspace.path
    os.chmod(root / "train.csv", 0)
    for path in (root, root.parent):
        os.chmod(path, 0)
        changes = workspace.changes(before, workspace.scan())
        print([(change.path, change.op, change.sha256[:4]) for change in changes])
    print(workspace.read("train.csv"))
"""


@needs_root
def test_an_ordinary_user_sees_what_was_closed() -> None:
    done = run_as_nobody(CLOSING)
    seen = [(".", "modified", "skip"), ("train.csv", "modified", "6b86")]
    assert done.stdout.splitlines() == [str(seen), str(seen), "b'1'"], done.stderr


# -- holes ------------------------------------------------------------------------------------------------


def write(path: Path, parts: list[tuple[bool, int]], *, sparse: bool) -> bytes:
    """Parts of data (True) or zeros, of a number of blocks each; zeros are holes if ``sparse``."""
    content = b""
    with path.open("wb") as file:
        for number, (data, blocks) in enumerate(parts):
            part = (bytes([number % 255 + 1]) if data else b"\0") * (blocks * BLOCK + number)
            if data or not sparse:
                file.seek(len(content))
                file.write(part)
            content += part
        file.truncate(len(content))
    return content


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=6))
def test_a_hole_has_the_digest_of_zeros(parts: list[tuple[bool, int]]) -> None:
    with Workspace() as workspace:
        content = write(workspace.path / "sparse", parts, sparse=True)
        write(workspace.path / "dense", parts, sparse=False)
        found = workspace.scan().entries
        assert found["sparse"].sha256 == found["dense"].sha256 == hashlib.sha256(content).hexdigest()
        with workspace.copy() as twin:
            assert twin.read("sparse", 2**22) == content
            assert twin.scan().entries["sparse"].sha256 == found["sparse"].sha256


def test_digests_cost_what_is_on_the_disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of holes of any size cost one small amount, with or without data next to them."""
    seen = 0

    class Counting:
        def update(self, data: bytes) -> None:
            nonlocal seen
            seen += len(data)

        def hexdigest(self) -> str:
            return "0" * 64

    monkeypatch.setattr("mappa_env.workspace.digests.hashlib.sha256", Counting)
    for number in range(100):
        with (workspace.path / f"x{number}").open("wb") as file:
            file.seek(number << 20)
            file.write(b"1" * (number % 2))
            file.truncate(200 << 20)
    entries = workspace.scan().entries
    assert seen <= digests.MAX_HOLES + workspace.snapshot.disk_bytes
    assert {entry.sha256 for entry in entries.values()} == {"skipped: holes"}
    (workspace.path / "x7").rename(workspace.path / "y")
    (workspace.path / "x8").write_bytes(b"1")
    assert ops(workspace) == {"x7": "deleted", "x8": "modified", "y": "renamed"}


def test_a_copy_costs_what_is_on_the_disk(workspace: Workspace) -> None:
    """Sparse files could otherwise use up the limit of a copy, and the files after them would be lost."""
    for name in ("!a", "!b", "!c"):
        with (workspace.path / name).open("wb") as file:
            file.truncate(400 << 20)
    workspace.put("train.csv", b"1")
    with workspace.copy() as twin:
        assert set(twin.scan().entries) == {"!a", "!b", "!c", "train.csv"}
        assert twin.snapshot.disk_bytes < 1 << 20


def test_a_digest_survives_a_file_that_shrinks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1" * BLOCK * 3)
    info = os.stat(tmp_path / "a")
    os.truncate(tmp_path / "a", BLOCK)
    with (tmp_path / "a").open("rb") as file:
        assert len(Digester().digest(file.fileno(), info)) == 64


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("touched", ["nothing", "mode", "time", "both"])
def test_a_rename_is_one_whatever_else_changes(workspace: Workspace, touched: str) -> None:
    workspace.put("model.pkl", b"1")
    workspace.scan()
    if touched in ("mode", "both"):
        os.chmod(workspace.path / "model.pkl", 0o600)
    if touched in ("time", "both"):
        os.utime(workspace.path / "model.pkl", (7, 7))
    (workspace.path / "model.pkl").rename(workspace.path / "mine.pkl")
    assert ops(workspace) == {"model.pkl": "deleted", "mine.pkl": "renamed"}


def test_hard_links_are_listed_and_copied(workspace: Workspace) -> None:
    workspace.put("a", b"1")
    workspace.put("sub/c", b"3")
    before = workspace.scan()
    os.link(workspace.path / "a", workspace.path / "sub" / "b")
    changes = workspace.changes(before, workspace.scan())
    assert [(change.path, change.op, change.links) for change in changes] == [
        ("a", "modified", 2),
        ("sub/b", "created", 2),
    ]
    with workspace.copy() as twin:
        twin.scan()
        (twin.path / "sub" / "b").write_bytes(b"22")
        assert twin.read("a") == b"22"
        assert ops(twin) == {"a": "modified", "sub/b": "modified"}
        assert twin.read("sub/c") == b"3"


def test_further_names_of_a_renamed_file_are_new(workspace: Workspace) -> None:
    workspace.put("a", b"1")
    workspace.scan()
    time.sleep(0.01)
    (workspace.path / "a").rename(workspace.path / "b")
    os.link(workspace.path / "b", workspace.path / "c")
    assert ops(workspace) == {"a": "deleted", "b": "renamed", "c": "created"}


# -- modes ------------------------------------------------------------------------------------------------


def modes(workspace: Workspace) -> dict[str, tuple[str, int | None]]:
    """The changes since the last scan, by path: what happened, and the permissions that were left."""
    before = workspace.snapshot
    return {change.path: (change.op, change.mode) for change in workspace.changes(before, workspace.scan())}


def test_the_file_history_holds_the_modes_that_were_left(workspace: Workspace) -> None:
    for name in ("same", "closed", "opened", "moved", "sub/a"):
        workspace.put(name, name.encode())
    workspace.scan()
    root = workspace.path
    (root / "same").write_bytes(b"same again")
    (root / "closed").chmod(0o044)
    (root / "opened").chmod(0o777)
    (root / "moved").chmod(0o400)
    (root / "moved").rename(root / "here")
    (root / "sub").chmod(0o311)
    root.chmod(0o100)
    assert modes(workspace) == {
        ".": ("modified", 0o100),
        "closed": ("modified", 0o044),
        "here": ("renamed", 0o400),
        "moved": ("deleted", None),
        "opened": ("modified", 0o777),
        "same": ("modified", None),
        "sub": ("modified", 0o311),
    }
    assert modes(workspace) == {}
    assert all((root / name).stat().st_mode & 0o600 == 0o600 for name in ("closed", "here", "sub", "."))


def test_a_mode_that_the_host_restores_at_once_is_listed(workspace: Workspace) -> None:
    """Restored, it is as before, and on a coarse clock so may be the time."""
    workspace.put("a", b"1")
    workspace.put("sub/a", b"1")
    before = workspace.scan()
    (workspace.path / "a").chmod(0o044)
    (workspace.path / "sub").chmod(0o055)
    after = workspace.scan()
    entries = {
        path: replace(entry, signature=before.entries[path].signature)
        for path, entry in after.entries.items()
    }
    found = workspace.changes(before, replace(after, entries=entries, top=before.top))
    assert [(change.path, change.op, change.mode) for change in found] == [
        ("a", "modified", 0o044),
        ("sub", "modified", 0o055),
    ]


def test_modes_are_listed_when_entries_are_removed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limits the host scans twice, and the first scan has opened what was closed."""
    monkeypatch.setattr("mappa_env.workspace.scanning.MAX_ENTRIES", 5)
    for name in ("a", "sub/a"):
        workspace.put(name, b"1")
    workspace.scan()
    for number in range(5):
        (workspace.path / "sub" / f"x{number}").write_bytes(b"")
    (workspace.path / "a").chmod(0)
    (workspace.path / "sub").chmod(0o500)
    workspace.path.chmod(0o500)
    found = modes(workspace)
    assert workspace.snapshot.skipped == 3
    assert (found["."], found["a"], found["sub"]) == (
        ("modified", 0o500),
        ("modified", 0),
        ("modified", 0o500),
    )
    assert modes(workspace) == {}


# -- the quota --------------------------------------------------------------------------------------------


def test_who_uses_the_quota(workspace: Workspace) -> None:
    """Blocks on the disk count, not sizes; folders count, and a file with several names counts once."""
    workspace.put("given.csv", bytes(5000))
    assert workspace.use() == {"": Use(5000, 1)}
    root = workspace.path

    def act(agent: str) -> None:
        before = workspace.snapshot
        workspace.record(workspace.changes(before, workspace.scan()), agent, 0)

    workspace.scan()
    given = workspace.use()[""]
    (root / "sparse").touch()
    os.truncate(root / "sparse", 1 << 40)
    for number in range(9):
        (root / "sub" / str(number)).mkdir(parents=True)
    act("engineer_0")
    (root / "data").write_bytes(bytes(1 << 20))
    os.link(root / "data", root / "again")
    os.utime(root / "sparse", (7, 7))
    (root / "sub").chmod(0o700)
    act("modeler_0")
    used = workspace.use()
    assert set(used) == {"", "engineer_0", "modeler_0"}
    assert used[""] == given
    assert (used["engineer_0"].entries, used["modeler_0"].entries) == (11, 2)
    assert used["engineer_0"].size < 1 << 20 <= used["modeler_0"].size < 2 << 20
    with workspace.copy() as twin:
        twin.scan()
        assert {agent: use.entries for agent, use in twin.use().items()} == {
            agent: use.entries for agent, use in used.items()
        }
    (root / "data").write_bytes(b"")
    (root / "sub").rename(root / "mine")
    act("analyst_0")
    used = workspace.use()
    assert sum(use.entries for use in used.values()) == 14
    assert (used["engineer_0"].entries, used["analyst_0"].entries) == (1, 12)
