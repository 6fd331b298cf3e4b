"""What the benchmark of topologies trains, and in which order, without training anything."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paths import ROOT

sys.path.append(str(ROOT / "benchmarks"))
import topologies


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(arm, seed) of every run that the benchmark begins; each samples ten tokens in a step."""
    found: list[tuple[str, int]] = []

    def finished(out: Path, arm: str, seed: int, recipe: str, settings: Any) -> tuple[str, int]:
        found.append((arm, seed))
        if seed == 9:
            raise KeyboardInterrupt
        return arm, seed

    def read_run(made: tuple[str, int]) -> Any:
        most = 6 if made[0] == "manager" else 4 if made[0] != "single" else 2
        return SimpleNamespace(seed=made[1], curve=lambda name: [(i, 10.0) for i in range(most)])

    monkeypatch.setattr(topologies, "finished", finished)
    monkeypatch.setattr(topologies, "read_run", read_run)
    return found


def test_one_command_trains_what_the_table_shows(begun: list[tuple[str, int]], tmp_path: Path) -> None:
    found = topologies.trained_all(tmp_path, list(topologies.RECIPES), None, [], 1)
    assert {name: len(runs) for name, runs in found.items()} == {
        **dict.fromkeys(topologies.RECIPES, 1),
        **dict.fromkeys(("chain", "debate", "manager"), 3),
        topologies.EQUAL: 1,
    }
    assert begun[-1] == ("single, 4 steps", 0), "as many tokens as the median of chain, debate, manager, ..."
    assert topologies.trained_all(tmp_path, ["single", "manager"], [5], [], 1).keys() >= {topologies.EQUAL}
    assert begun[-3:] == [("single", 5), ("manager", 5), ("single, 6 steps", 5)]


def test_an_interrupted_run_is_the_last(begun: list[tuple[str, int]], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        topologies.trained_all(tmp_path, ["single", "chain"], [9, 1, 2, 3], [], 1)
    assert len(begun) <= 2  # the next one may have begun before the first one's end was noticed
