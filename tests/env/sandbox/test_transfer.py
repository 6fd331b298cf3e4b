"""Archives of workspaces: the host reads what the wrapper may write exactly, and refuses anything else."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.sandbox.transfer import TransferError, Tree, apply, pack, unpack
from mappa_env.workspace.escaping import shown
from mappa_env.workspace.snapshot import MAX_DEPTH, MAX_ENTRIES, MAX_PATH
from mappa_env.workspace.workspace import Workspace

ROOM = 10_000
Add = Callable[[tarfile.TarFile], object]


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with Workspace() as made:
        for name in ("a", "b", "d/c"):
            made.put(name, name.encode())
        made.storage.ready()
        yield made


def entry(name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, mode: int = 0o644) -> Add:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.linkname = kind, len(content), mode, "/etc/passwd"
    return lambda archive: archive.addfile(info, io.BytesIO(content))


def archive(*add: Add, form: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form, encoding="utf-8") as made:
        for each in add:
            each(made)
    return buffer.getvalue()


def contents(workspace: Workspace) -> dict[str, bytes]:
    files = [path for path, found in workspace.scan().entries.items() if found.kind == "file"]
    return {path: workspace.read(shown(path)) for path in files}


# -- reading ----------------------------------------------------------------------------------------------


def test_a_workspace_survives_the_journey(workspace: Workspace) -> None:
    long, raw = "/".join("x" * 60 for _ in range(4)), os.fsdecode(b"\xff\nname")
    for name in (long, raw):
        apply(workspace, unpack(archive(entry(name, b"1", mode=0o750)), ROOM), {n: n for n in ("a", "b")})
        workspace.scan()
        assert contents(workspace) == {"a": b"a", "b": b"b", name: b"1"}
    (workspace.path / "empty").mkdir()
    workspace.scan()
    tree = unpack(pack(workspace), ROOM)
    assert {path: (mode, bytes(content)) for path, (mode, content) in tree.files.items()} == {
        "a": (0o644, b"a"),
        "b": (0o644, b"b"),
        raw: (0o750, b"1"),
    }
    assert tree.folders == {"empty"}


REFUSED: dict[str, tuple[bytes, str]] = {
    "link": (archive(entry("x", kind=tarfile.SYMTYPE)), "type"),
    "hard link": (archive(entry("a"), entry("x", kind=tarfile.LNKTYPE)), "type"),
    "fifo": (archive(entry("x", kind=tarfile.FIFOTYPE)), "type"),
    "device": (archive(entry("x", kind=tarfile.CHRTYPE)), "type"),
    "sparse": (archive(entry("x", kind=tarfile.GNUTYPE_SPARSE)), "type"),
    "long link": (archive(entry("x", bytes(20), kind=tarfile.GNUTYPE_LONGLINK)), "type"),
    "folder with content": (archive(entry("x", b"1", kind=tarfile.DIRTYPE)), "type"),
    "absolute": (archive(entry("/etc/x")), "bad name"),
    "above": (archive(entry("../x")), "bad name"),
    "above, inside": (archive(entry("d/../../x")), "bad name"),
    "the folder itself": (archive(entry(".", kind=tarfile.DIRTYPE)), "bad name"),
    "no name": (archive(entry("")), "bad name"),
    "NUL in a long name": (archive(entry("x" * 120 + "\0" + "y" * 120)), "bad name"),
    "twice": (archive(entry("x"), entry("x")), "twice"),
    "file and folder": (archive(entry("x"), entry("x/y")), "both"),
    "deep": (archive(entry("/".join("x" * (MAX_DEPTH + 1)))), "levels"),
    "long path": (archive(entry("/".join(["x" * 200] * (MAX_PATH // 200 + 1)))), "characters"),
    "long name": (archive(entry("x" * 256)), "255 bytes"),
    "too many": (archive(*(entry(str(i)) for i in range(MAX_ENTRIES + 1))), "entries"),
    "too large": (archive(entry("x", bytes(ROOM // 2)), entry("y", bytes(ROOM // 2 + 1))), "larger"),
    "another format": (archive(entry("x"), form=tarfile.PAX_FORMAT), "damaged"),
    "cut in a header": (archive(entry("x", b"1"))[:300], "early"),
    "cut in a file": (archive(entry("x", bytes(2000)))[:1500], "early"),
    "no end": (archive(entry("x", b"1"))[:1024], "early"),
    "nothing": (b"", "early"),
    "no archive": (b"x" * 1024, "damaged"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_wrapper_never_writes_is_refused(case: str) -> None:
    data, reason = REFUSED[case]
    with pytest.raises(TransferError, match=reason):
        unpack(data, ROOM)


@settings(deadline=None)
@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """Changing any bytes gives a TransferError or a valid tree, but no other error and no endless loop."""
    damaged = bytearray(archive(entry("x" * 150, b"1" * 600), entry("d", kind=tarfile.DIRTYPE), entry("y")))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        tree = unpack(bytes(damaged), ROOM)
    except TransferError:
        return
    paths = (*tree.files, *tree.folders)
    assert not any(".." in path.split("/") or path.startswith("/") for path in paths)
    assert sum(len(content) for _, content in tree.files.values()) <= ROOM


# -- applying ---------------------------------------------------------------------------------------------


def test_only_the_difference_is_touched(workspace: Workspace) -> None:
    before = workspace.scan()
    tree = unpack(archive(entry("b", b"new"), entry("e/f", b"f"), entry("g", kind=tarfile.DIRTYPE)), ROOM)
    apply(workspace, tree, {"a": "a", "d/moved": "d/c"})
    changes = workspace.changes(before, workspace.scan())
    assert [(change.path, change.op) for change in changes] == [
        ("b", "modified"),
        ("d/c", "deleted"),
        ("d/moved", "renamed"),
        ("e", "created"),
        ("e/f", "created"),
        ("g", "created"),
    ]
    assert contents(workspace) == {"a": b"a", "b": b"new", "d/moved": b"d/c", "e/f": b"f"}
    assert (workspace.path / "g").is_dir()


@pytest.mark.parametrize(
    ("tree", "kept", "expected"),
    [
        (Tree(), {}, {}),
        (Tree(), {"a": "b", "b": "a", "d/c": "d/c"}, {"a": b"b", "b": b"a", "d/c": b"d/c"}),
        (Tree(), {"d": "d/c"}, {"d": b"d/c"}),
        (Tree(), {"a/b/c": "a"}, {"a/b/c": b"a"}),
        (Tree({"d": (0o600, memoryview(b"x"))}), {"a": "a"}, {"a": b"a", "d": b"x"}),
        (unpack(archive(entry("a/x", b"1")), ROOM), {"b": "a"}, {"a/x": b"1", "b": b"a"}),
    ],
)
def test_every_change_of_shape(
    workspace: Workspace, tree: Tree, kept: dict[str, str], expected: dict[str, bytes]
) -> None:
    apply(workspace, tree, kept)
    assert contents(workspace) == expected


@pytest.mark.parametrize(
    ("modes", "linked", "reason"),
    [
        ({"b": 0o600}, {}, "has a mode"),
        ({}, {"y": "b"}, "is missing"),
        ({}, {"y": "z", "z": "a"}, "is missing"),
        ({}, {"y": "../a"}, "is missing"),
        ({}, {"x": "a"}, "something else too"),
        ({}, {"a": "x"}, "something else too"),
        ({}, {"e": "a"}, "something else too"),
        ({}, {"a/y": "a"}, "took its place"),
        ({}, {"../y": "a"}, "bad name"),
        ({}, {f"y{number}": "a" for number in range(MAX_ENTRIES)}, "more hard links"),
    ],
)
def test_forged_links_and_modes_change_nothing(
    workspace: Workspace, modes: dict[str, int], linked: dict[str, str], reason: str
) -> None:
    before = contents(workspace)
    sent = unpack(archive(entry("x", b"1"), entry("e/f", b"1")), ROOM)
    with pytest.raises(TransferError, match=reason):
        apply(workspace, sent, {"a": "a"}, modes, linked)
    assert contents(workspace) == before


def test_links_and_modes_arrive(workspace: Workspace) -> None:
    apply(workspace, Tree(), {"a": "a", "n": "b"}, {"n": 0o4}, {"new/l": "a", "d/c": "n"})
    root = workspace.path
    assert contents(workspace) == {"a": b"a", "n": b"b", "new/l": b"a", "d/c": b"b"}
    assert (root / "n").stat().st_mode & 0o777 == 0o604  # the owner gets write access back
    assert (root / "new" / "l").samefile(root / "a")
    assert (root / "d" / "c").samefile(root / "n")


@pytest.mark.parametrize(
    ("add", "kept", "reason"),
    [
        ("x", {"a": "nowhere"}, "not there"),
        ("x", {"a": "d"}, "not there"),
        ("x", {"../a": "a"}, "bad name"),
        ("x", {"/tmp/a": "a"}, "bad name"),
        ("x", {"\ud800": "a"}, "bad name"),
        ("x", {"y": "a", "z": "a"}, "contradicts"),
        ("x", {"x": "a"}, "took its place"),
        ("x/y", {"x": "a"}, "took its place"),
        ("x", {"x/y": "a"}, "both"),
        ("x", {"y": "a", "y/z": "b"}, "took its place"),
    ],
)
def test_a_contradiction_changes_nothing(
    workspace: Workspace, add: str, kept: dict[str, str], reason: str
) -> None:
    before = contents(workspace)
    with pytest.raises(TransferError, match=reason):
        apply(workspace, unpack(archive(entry(add, b"1")), ROOM), kept)
    assert contents(workspace) == before


def test_links_of_another_sandbox_are_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.path / "link").symlink_to(tmp_path)
    (workspace.path / "file").symlink_to(tmp_path / "outside")
    workspace.scan()
    assert "link" not in unpack(pack(workspace), ROOM).files
    apply(workspace, unpack(archive(entry("link/x", b"1"), entry("file", b"2")), ROOM), {})
    assert contents(workspace) == {"link/x": b"1", "file": b"2"}
    assert os.listdir(tmp_path) == []


def test_files_stay_readable_for_the_host(workspace: Workspace) -> None:
    apply(workspace, unpack(archive(entry("x", b"1", mode=0o4000)), ROOM), {})
    assert (workspace.path / "x").stat().st_mode & 0o7777 == 0o400
    workspace.scan()
    apply(workspace, Tree(), {"y": "x"})
    assert contents(workspace) == {"y": b"1"}
