"""A data file that was changed is found, and one that was only read is not."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mappa_env.data.stamps import check_unchanged, stamps_of
from mappa_env.errors import DataError
from mappa_env.sandbox import make_sandbox


def edit(path: Path) -> None:
    path.write_text("x,y\n9,9\n")


def replace(path: Path) -> None:
    other = path.with_name("other.csv")
    edit(other)
    other.replace(path)


def swap_through_a_link(path: Path) -> None:
    other = path.with_name("other.csv")
    edit(other)
    path.unlink()
    path.symlink_to(other)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    path.write_text("x,y\n1,2\n")
    time.sleep(0.02)  # the clock of file systems ticks slowly
    return path


@pytest.mark.parametrize("change", [edit, replace, swap_through_a_link])
def test_a_change_of_the_same_size_is_found_though_its_time_was_set_back(
    data: Path, change: Callable[[Path], None]
) -> None:
    stamps, before = stamps_of([data]), data.stat()
    change(data)
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (data.stat().st_mtime_ns, data.stat().st_size) == (before.st_mtime_ns, before.st_size)
    with pytest.raises(DataError, match=r"train\.csv has changed since it was checked"):
        check_unchanged(stamps, [data])


def test_reading_and_copying_change_nothing(data: Path, tmp_path: Path) -> None:
    stamps = stamps_of([data])
    data.read_bytes()
    shutil.copy2(data, tmp_path / "copy.csv")
    with contextlib.closing(make_sandbox("local")) as sandbox:
        for _ in range(2):
            workspace = sandbox.open_workspace()
            workspace.put("train.csv", data)
            workspace.remove()
    check_unchanged(stamps, [data])


def test_a_missing_file_is_named(data: Path) -> None:
    stamps = stamps_of([data])
    data.unlink()
    with pytest.raises(DataError, match=r"train\.csv: No such file"):
        check_unchanged(stamps, [data])
