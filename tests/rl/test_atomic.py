"""Files are replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from mappa_rl.atomic import replacing, write_bytes, write_text


def test_a_file_is_created_and_replaced_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    write_text(path, "é")
    assert path.read_bytes() == b"\xc3\xa9"
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


def fail(draft: Path) -> None:
    draft.write_text("half")
    raise KeyError


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_text(path, "old")
    with pytest.raises(KeyError), replacing(path) as draft:
        fail(draft)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_draft_that_a_kill_left_behind_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "x"
    (tmp_path / "x.new").write_text("left behind, ")
    with replacing(path) as draft, draft.open("a") as file:
        file.write("fresh")
    assert path.read_text() == "fresh"
