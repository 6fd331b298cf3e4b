"""The workspace reports what hostile code leaves correctly, reads it safely and removes it completely."""

from __future__ import annotations

import gc
import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.errors import WorkspaceError
from mappa_env.types import FileChange
from mappa_env.workspace import copying, digests, scanning, snapshot
from mappa_env.workspace.changes import compare
from mappa_env.workspace.escaping import parts
from mappa_env.workspace.nofollow import remove_tree
from mappa_env.workspace.scanning import scan
from mappa_env.workspace.workspace import Workspace
from nobody import needs_root, run_as_nobody

SECRET = "/etc/passwd"


def change(workspace: Workspace) -> dict[str, FileChange]:
    """The changes since the last scan, by path."""
    before = workspace.snapshot
    found = workspace.changes(before, workspace.scan())
    assert [f.path for f in found] == sorted(f.path for f in found)
    return {f.path: f for f in found}


def ops(workspace: Workspace) -> dict[str, str]:
    return {path: f.op for path, f in change(workspace).items()}


def dig(root: str | os.PathLike[str], depth: int) -> None:
    """A chain of folders deeper than the limits on paths (4096) and on recursion (1000)."""
    folder = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 9, dir_fd=folder)
        deeper = os.open("d" * 9, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


# -- the folder -------------------------------------------------------------------------------------------


def test_nothing_is_made_before_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    workspace = Workspace()
    assert workspace.scan().entries == {}
    workspace.remove()
    assert os.listdir(tmp_path) == []
    workspace.put("a/b.csv", b"x")
    (base,) = tmp_path.iterdir()
    assert stat.S_IMODE(base.stat().st_mode) == 0o700
    assert workspace.path.parent == base
    workspace.remove()
    workspace.remove()
    assert os.listdir(tmp_path) == []


def test_a_forgotten_workspace_is_removed() -> None:
    workspace = Workspace()
    path = workspace.path
    del workspace
    gc.collect()
    assert not path.exists()


def test_a_fork_does_not_remove_its_parents_workspace(workspace: Workspace) -> None:
    workspace.put("a", b"1")
    pid = os.fork()
    if pid == 0:
        workspace.remove()
        os._exit(0)
    os.waitpid(pid, 0)
    assert workspace.read("a") == b"1"


def test_ready_fixes_what_code_broke(workspace: Workspace) -> None:
    (workspace.ready() / "a").write_bytes(b"1")
    (workspace.scratch / "deep").mkdir()
    workspace.scan()
    os.unlink(workspace.path / "a")
    os.rmdir(workspace.path)
    os.symlink("/etc", workspace.path)
    assert ops(workspace) == {".": "modified", "a": "deleted"}
    assert list(workspace.ready().iterdir()) == []
    assert not workspace.path.is_symlink()
    assert os.listdir(workspace.scratch) == []
    assert workspace.scan().entries == {}


# -- put, read, copy --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "/a", "..", "a/../b", "./a", "a//b", "a/", "a\0b", "a\nb", "a\\b", "\udcff"]
)
def test_names_that_are_refused(workspace: Workspace, name: str) -> None:
    with pytest.raises(WorkspaceError):
        workspace.put(name, b"")
    assert workspace.present == {}


@given(st.text(alphabet=st.sampled_from("ab./\\\0"), max_size=8))
def test_accepted_names_stay_inside(name: str) -> None:
    try:
        found = parts(name)
    except WorkspaceError:
        return
    assert os.path.normpath(f"/base/{name}") == "/base/" + "/".join(found)


def test_put_takes_bytes_and_regular_files_only(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "fifo")
    workspace.put("one", tmp_path / "link")
    workspace.put("one", b"123")
    for bad in ("fifo", "missing", "."):
        with pytest.raises(WorkspaceError):
            workspace.put("two", tmp_path / bad)
    assert workspace.read("one") == b"123"
    put = workspace.present["one"]
    assert (put.op, put.agent, put.size, put.step) == ("created", "", 3, -1)
    assert put.sha256 == workspace.scan().entries["one"].sha256
    assert ops(workspace) == {}


def test_put_never_writes_through_a_link(workspace: Workspace, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (workspace.path / "a").symlink_to(target)
    (workspace.path / "sub").symlink_to(tmp_path)
    workspace.put("a", b"new")
    with pytest.raises(WorkspaceError):
        workspace.put("sub/target", b"new")
    assert target.read_bytes() == b"mine"
    assert workspace.read("a") == b"new"


def test_read_refuses_all_but_regular_files(workspace: Workspace) -> None:
    root = workspace.path
    (root / "link").symlink_to(SECRET)
    (root / "self").symlink_to("self")
    (root / "dir").mkdir()
    (root / "etc").symlink_to("/etc")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
    (root / "big").write_bytes(b"123")
    os.truncate(root / "big", 1 << 40)
    for name in (
        "link",
        "self",
        "dir",
        "etc/passwd",
        "fifo",
        "socket",
        "big",
        "missing",
        "dir/x",
        "../ws/big",
    ):
        with pytest.raises(WorkspaceError, match=name.split("/")[0].replace(".", r"\.")):
            workspace.read(name)
    assert len(workspace.scan().entries) == 7  # and the walk neither hangs nor follows


def test_read_at_the_limit(workspace: Workspace) -> None:
    workspace.put("a", b"12345")
    assert workspace.read("a", 5) == b"12345"
    with pytest.raises(WorkspaceError, match="5 bytes"):
        workspace.read("a", 4)


def test_copy_holds_regular_files_only(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.put("sub/a", b"1")
    (workspace.path / "b\n").write_bytes(b"2")
    (workspace.path / "link").symlink_to(SECRET)
    os.mkfifo(workspace.path / "fifo")
    (workspace.path / "sub" / "z").write_bytes(b"1")
    monkeypatch.setattr(copying, "MAX_COPY_BYTES", 2)
    with workspace.copy() as twin:
        assert set(twin.scan().entries) == {"sub", "sub/a", "b\n"}
        assert twin.read("b\\x0a") == b"2"
        (twin.path / "sub" / "a").write_bytes(b"changed")
    assert workspace.read("sub/a") == b"1"


# -- the file history -------------------------------------------------------------------------------------


def test_operations_are_told_apart(workspace: Workspace) -> None:
    for name in ("kept", "edited", "gone", "moved", "swapped"):
        workspace.put(name, name.encode())
    workspace.scan()
    root = workspace.path
    (root / "edited").write_bytes(b"EDITED")
    (root / "gone").unlink()
    (root / "moved").rename(root / "here")
    (root / "swapped").unlink()
    (root / "swapped").symlink_to(SECRET)
    (root / "sub").mkdir()
    (root / "sub" / "new").write_bytes(b"1")
    found = change(workspace)
    assert {path: f.op for path, f in found.items()} == {
        "edited": "modified",
        "gone": "deleted",
        "here": "renamed",
        "moved": "deleted",
        "sub": "created",
        "sub/new": "created",
        "swapped": "type_changed",
    }
    assert found["swapped"].kind == "link"
    assert found["sub/new"].sha256 == "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    workspace.record(tuple(found.values()), "coder_0", 3)
    assert set(workspace.present) == {"kept", "edited", "here", "swapped", "sub/new"}
    assert {f.agent for f in workspace.history} == {"coder_0"}
    assert (workspace.present["here"].step, workspace.present["kept"].agent) == (3, "")
    assert ops(workspace) == {}


def test_a_forged_time_does_not_hide_a_change(workspace: Workspace) -> None:
    workspace.put("a", b"old")
    workspace.scan()
    before = os.stat(workspace.path / "a")
    (workspace.path / "a").write_bytes(b"new")
    os.utime(workspace.path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ops(workspace) == {"a": "modified"}


def test_equal_times_on_a_coarse_clock_do_not_hide_a_change(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one tick of an old kernel's clock, a rewrite leaves the signature unchanged."""
    workspace.put("a", b"old")
    frozen = os.stat(workspace.path / "a")
    real = os.stat
    monkeypatch.setattr(
        "mappa_env.workspace.scanning.os.stat", lambda *a, **k: frozen if a[0] == "a" else real(*a, **k)
    )
    workspace.scan()
    (workspace.path / "a").write_bytes(b"new")
    assert ops(workspace) == {"a": "modified"}


def test_what_did_not_move_is_not_read_again(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.put("a", b"old")
    first = workspace.scan()
    later = snapshot.Snapshot(first.entries, taken_ns=first.taken_ns + 10**9)  # long after all changes
    monkeypatch.setattr(scanning, "open_file", None)
    assert scan(workspace.path, later).entries == first.entries


def test_big_files_are_listed_without_a_digest(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "MAX_HASH_FILE", 10)
    monkeypatch.setattr(digests, "MAX_HASH_TOTAL", 15)
    for name, size in (("a", 11), ("b", 10), ("c", 6), ("d", 5)):
        (workspace.path / name).write_bytes(bytes(size))
    found = {name: entry.sha256 for name, entry in workspace.scan().entries.items()}
    assert [name for name, digest in found.items() if digest == "skipped: size"] == ["a", "c"]


def test_a_flood_of_names_neither_hides_nor_invents_nor_stays(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "MAX_ENTRIES", 20)
    workspace.put("z/model.pkl", b"1")
    workspace.put("zz", b"1")
    first = workspace.scan()
    for i in range(50):
        (workspace.path / f"a{i}").write_bytes(b"")
    (workspace.path / "z" / "model.pkl").write_bytes(b"22")
    (workspace.path / "zz").unlink()
    second = workspace.scan()
    assert (second.skipped, len(second.entries)) == (32, 20)
    found = {f.path: f.op for f in compare(first, second)}
    assert found.pop("z/model.pkl") == "modified"
    assert found.pop("zz") == "deleted"
    assert list(found.values()) == ["created"] * 18
    listed = {str(path.relative_to(workspace.path)) for path in workspace.path.rglob("*")}
    assert listed == set(second.entries)
    assert ops(workspace) == {}


@pytest.mark.slow
def test_deep_trees_are_cut_off_and_removed(workspace: Workspace) -> None:
    dig(workspace.path, 1050)
    found = workspace.scan()
    assert (len(found.entries), found.skipped) == (snapshot.MAX_DEPTH, 1)
    path = workspace.path
    workspace.remove()
    assert not path.parent.exists()


def test_disk_use_counts_blocks_once(workspace: Workspace) -> None:
    root = workspace.path
    (root / "real").write_bytes(bytes(1 << 20))
    os.link(root / "real", root / "again")
    with open(root / "sparse", "wb") as stream:
        stream.truncate(1 << 40)
    assert 1 << 20 <= workspace.scan().disk_bytes < 1 << 21


# -- removal ----------------------------------------------------------------------------------------------


def test_remove_tree_spares_what_links_point_to(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_bytes(b"1")
    root = tmp_path / "root"
    (root / "a" / "b" / "c").mkdir(parents=True)
    (root / "a" / "out").symlink_to(tmp_path / "out")
    (root / "a" / "self").symlink_to("self")
    os.mkfifo(root / "a" / "b" / "fifo")
    (root / "a" / "b").chmod(0)
    remove_tree(root)
    assert not root.exists()
    (tmp_path / "root").symlink_to(tmp_path / "out")
    remove_tree(tmp_path / "root")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "precious").read_bytes() == b"1"


LOCKED = """
w = Workspace()
(w.ready() / "locked" / "in").mkdir(parents=True)
(w.path / "locked" / "in" / "file").write_bytes(b"1")
(w.path / "mute").write_bytes(b"1")
for path in ("mute", "locked/in", "locked", "."):
    os.chmod(w.path / path, 0)
found = sorted((name, entry.sha256[:8]) for name, entry in w.scan().entries.items())
base = w.path.parent
os.chmod(w.path, 0)
os.chmod(base, 0)
w.ready()
w.remove()
print(found, os.path.exists(base))
"""


@needs_root
def test_modes_do_not_lock_an_ordinary_user_out() -> None:
    done = run_as_nobody(LOCKED)
    listed = [("locked", ""), ("locked/in", ""), ("locked/in/file", "6b86b273"), ("mute", "6b86b273")]
    assert done.stdout.strip() == f"{listed} False", done.stderr
