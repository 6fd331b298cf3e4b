"""Whether a file that an action wrote again still is what its readers count on."""

from __future__ import annotations

import pytest

from mappa_env.workspace.keeping import comparable, keeps
from mappa_env.workspace.workspace import Workspace

MODULE = b"import math\n\ndef area(r):\n    return math.pi * r**2\n"
KEPT = [
    ("a.py", MODULE, MODULE + b"\ndef half(x, by=2):\n    return x / by\n"),
    ("a.py", MODULE, b'"""Shapes."""\n' + MODULE.replace(b"**2", b" ** 2  # squared")),
    ("a.py", MODULE, MODULE + b"SIDES = 4\nclass Shape:\n    sides = 3\n"),
    ("a.json", b"{}", b'{"a": 1}'),
    ("a.json", b'{"a": 1}', b'{"b": [], "a": 2}'),
    ("a.json", b"[1]\n[2]\n", b"[1]\n[2]\n[3]\n"),
    ("a.json", b"[1]", b"[1, 2]"),
    ("a.csv", b"a,b\n1,2\n", b"b,a,c\n1,2,3\n"),
    ("a.log", b"first", b"second"),
    ("a.txt", b"0.5", b"0.25\n"),
    ("a.out", b"one\n", b"one\ntwo\n"),
    ("NOTES", b"one\n", b"one\ntwo\n"),
]
LOST = [
    ("a.py", MODULE, b"def other():\n    pass\n" * 9),
    ("a.py", MODULE, MODULE.replace(b"**2", b"**3")),
    ("a.py", MODULE, MODULE + b"area = None\n"),
    ("a.py", MODULE, MODULE + b"def area(r):\n    raise ValueError\n"),
    ("a.py", MODULE, MODULE + b"raise RuntimeError\n"),
    ("a.py", MODULE, MODULE + b"import nosuch\n"),
    ("a.py", MODULE, MODULE + b"def half(x=1 / 0):\n    pass\n"),
    ("a.py", MODULE, MODULE + b"def ("),
    ("a.py", MODULE, b""),
    ("a.json", b'{"a": 1}', b"{}"),
    ("a.json", b'{"a": 1}', b'{"a": "one"}'),
    ("a.json", b'{"a": 1}', b'{"a": 1'),
    ("a.json", b"[1, 2]", b"{}"),
    ("a.json", b'{"a": 1}\n', b'{"a": 1}\n{"a": 2}\n'),
    ("a.csv", b"a,b\n1,2\n", b"a,c\n1,2\n"),
    ("a.csv", b"a,b\n1,2\n", b"a,b\n"),
    ("a.csv", b"a,b\n1,2\n", b""),
    ("a.txt", b"some", b" \n"),
    ("a.txt", b"0.5", b"half"),
    ("a.txt", b"0.5\n", b"0.5\n0.6\n"),
]


@pytest.mark.parametrize(("path", "was", "now"), KEPT)
def test_what_readers_count_on_is_kept(path: str, was: bytes, now: bytes) -> None:
    assert keeps(path, was, now) is True


@pytest.mark.parametrize(("path", "was", "now"), LOST)
def test_what_readers_count_on_is_lost(path: str, was: bytes, now: bytes) -> None:
    assert keeps(path, was, now) is False


def test_other_files_are_not_known() -> None:
    assert keeps("a.dat", b"one", b"two") is None
    assert keeps("a.txt", b"one", b"\xff") is None
    assert keeps("a.json", b"1", b"[" * 50_000) in (None, False)
    assert not comparable("a.pkl", 9)
    assert not comparable("a.txt", 2**20)


def test_the_file_history_says_what_an_action_kept() -> None:
    with Workspace() as workspace:
        log, before = workspace.ready() / "run.log", workspace.scan()
        found = []
        for text in ("one\n", "one\ntwo\n", "\0", None, "three\n"):
            log.unlink() if text is None else log.write_text(text)
            after = workspace.scan()
            found += [change.keeps for change in workspace.changes(before, after) if change.path == "run.log"]
            before = after
            if text == "one\n":  # as in a correction, or another course of the episode
                twin = workspace.fork()
        assert found == [None, True, False, None, None]
        twin_log, before = twin.path / "run.log", twin.scan()
        twin_log.write_text("two")
        changes = {change.path: change.keeps for change in twin.changes(before, twin.scan())}
        twin.remove()
    assert changes["run.log"] is True
