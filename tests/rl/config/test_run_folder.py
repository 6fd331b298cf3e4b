"""A run's folder is refused before anything starts if it cannot be made."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mappa_env.errors import MappaError
from mappa_rl.config import load_config
from mappa_rl.config.env import Env
from mappa_rl.config.environment import env_card
from mappa_rl.config.run_folder import new_folder
from mappa_rl.errors import ConfigError


def test_a_folder_that_cannot_be_made_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for name, said in (
        ("file", "file is not a folder, so"),
        ("file/run", "file is not a folder, so"),
        ("dangling", "dangling is not a folder, so"),
        ("x" * 5000, "run.out names no folder"),
    ):
        config = load_config("demo", [f"out={tmp_path / name}"])
        with pytest.raises(ConfigError, match=re.escape(said)) as caught:
            new_folder(config, "demo")
        assert "choose another folder with out=." in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_neither_is_one_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_folder(load_config("demo"), "demo").parent == Path("runs")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    for overrides in ([], [f"out={tmp_path / 'a' / 'b'}"]):
        with pytest.raises(ConfigError, match=re.escape(f"{tmp_path} cannot be written, so")):
            new_folder(load_config("demo", overrides), "demo")


@pytest.mark.parametrize("name", ["x" * 5000, "mappa/" + "x" * 5000, "a:" + "x" * 5000, "x\0y"])
def test_a_name_that_no_file_can_have_is_no_environment(name: str) -> None:
    with pytest.raises(MappaError, match=r"neither an id|cannot be imported"):
        env_card(Env(id=name).id)
