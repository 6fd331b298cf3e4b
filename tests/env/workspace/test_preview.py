"""How the host shows names and first bytes of hostile files."""

from __future__ import annotations

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.errors import WorkspaceError
from mappa_env.workspace.escaping import meant, shown
from mappa_env.workspace.preview import preview
from mappa_env.workspace.scanning import scan
from mappa_env.workspace.workspace import Workspace

SECRET = "/etc/passwd"


# -- names ------------------------------------------------------------------------------------------------


@given(st.binary(min_size=1, max_size=20).map(os.fsdecode) | st.text(max_size=20))
def test_shown_names_are_printable_and_can_be_undone(name: str) -> None:
    assert shown(name).isprintable()
    assert meant(shown(name)) == name


def test_plain_names_are_shown_as_they_are() -> None:
    for name in ("X_train.pkl", "größe 1.csv", "-rf *", "数据.csv"):
        assert shown(name) == name
    assert shown("a\n\x1b[2J") == "a\\x0a\\x1b[2J"
    assert (shown(os.fsdecode(b"\xff")), shown("a\u202eb")) == ("\\xff", "a\\u202eb")


def test_hostile_names_keep_their_identity(workspace: Workspace) -> None:
    names = [b"a\nb", b"a\\x0ab", b"\xff\xfe", "\u202efdp.exe".encode(), b"-rf *", b"n" * 255]
    for name in names:
        with open(os.fsencode(workspace.path) + b"/" + name, "wb") as stream:
            stream.write(name)
    found = {f.path: f for f in workspace.changes(scan("/nowhere"), workspace.scan())}
    assert len(found) == len(names)
    assert sorted(workspace.read(path) for path in found) == sorted(names)


# -- previews ---------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch /tmp/mappa-preview-was-unpickled",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_shows_its_globals_and_is_not_loaded(workspace: Workspace, protocol: int) -> None:
    workspace.put("m.pkl", pickle.dumps([Bomb(), Bomb()], protocol))
    shown_pickle = workspace.preview("m.pkl")
    assert (shown_pickle.kind, shown_pickle.lines) == ("pickle", ("posix.system",))
    assert not os.path.exists("/tmp/mappa-preview-was-unpickled")


def test_previews_of_csv_text_and_binary(workspace: Workspace) -> None:
    workspace.put("a.csv", b'id,"x,y"\n1,' + b"9" * 1000 + b"\n" + b"2,3\n" * 100)
    workspace.put("a.txt", b"hello\n\x1b[31mred\n")
    workspace.put("a.bin", b"\x89PNG\0\0")
    rows = workspace.preview("a.csv")
    assert (rows.kind, rows.size, rows.lines[:2], len(rows.lines)) == (
        "csv",
        1412,
        ("id | x,y", "1 | " + "9" * 40),
        20,
    )
    assert workspace.preview("a.txt").lines == ("hello", "\\x1b[31mred")
    assert workspace.preview("a.bin").lines == ("89 50 4e 47 00 00",)
    (workspace.path / "link.csv").symlink_to(SECRET)
    with pytest.raises(WorkspaceError):
        workspace.preview("link.csv")


@given(st.binary(max_size=200), st.sampled_from(["a.pkl", "a.csv", "a.tsv", "a.txt"]))
def test_previews_take_any_bytes(data: bytes, name: str) -> None:
    for line in preview(name, data, len(data)).lines:
        assert line.isprintable()
        assert len(line) < 40 * 1000


@given(st.integers(0, 5), st.integers(0, 100), st.binary(max_size=4))
def test_previews_take_broken_pickles(protocol: int, cut: int, noise: bytes) -> None:
    good = pickle.dumps({"a": [Bomb(), 1.5, 2**70, "x" * 20]}, protocol)
    preview("a.pkl", good[:cut] + noise + good[cut:], 0)
