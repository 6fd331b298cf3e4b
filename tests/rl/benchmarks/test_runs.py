"""Benchmarks reuse a run of their own folder only if it is the one that they ask for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mappa_rl.config import load_config
from mappa_rl.config.run_folder import write_config
from paths import ROOT

sys.path.append(str(ROOT / "benchmarks"))
from runs import finished


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run of the arm ``process`` with seed 1."""
    out = tmp_path / "process" / "seed-1"
    out.mkdir(parents=True)
    write_config(load_config("demo", ["run.seed=1", f"run.out={out}", "optim.lr=1e-3"]), out)
    (out / "summary.json").write_text("{}")
    return out


def test_the_same_run_is_not_made_again(tmp_path: Path, folder: Path) -> None:
    assert finished(tmp_path, "process", 1, "demo", ["optim.lr=1e-3"]) == folder


@pytest.mark.parametrize(
    ("recipe", "settings", "key"),
    [
        ("demo", [], "optim.lr"),
        ("demo", ["optim.lr=1e-3", "run.steps=7"], "run.steps"),
        ("demo_dsbench", ["optim.lr=1e-3"], "env.id"),
    ],
)
def test_another_run_is_refused(
    tmp_path: Path, folder: Path, recipe: str, settings: list[str], key: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        finished(tmp_path, "process", 1, recipe, settings)
    assert f"{folder} holds a run with another" in str(ended.value)
    assert key in str(ended.value)
