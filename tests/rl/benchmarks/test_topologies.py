"""What the benchmark of topologies trains, and in which order, without training anything."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mappa_rl.evaluation.results import Result
from paths import ROOT

sys.path.append(str(ROOT / "benchmarks"))
import compared
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
        arm, seed = made
        most = 6 if arm == "manager" else 4 if arm != "single" else 2
        ends = {
            (phase, 1.0): [Result(phase, 1.0, seed, i, f"{i}", "", i < solved, 0.0, {}) for i in range(10)]
            for phase, solved in (("before", 2), ("after", 7 if arm == "chain" else 2))
        }
        return SimpleNamespace(
            seed=seed,
            curve=lambda name: [(i, 10.0) for i in range(most)],
            results=ends,
            best=None,
            summary=SimpleNamespace(wall_seconds=60.0),
        )

    monkeypatch.setattr(topologies, "finished", finished)
    monkeypatch.setattr(topologies, "read_run", read_run)
    return found


def test_one_command_trains_what_the_table_shows(begun: list[tuple[str, int]], tmp_path: Path) -> None:
    found = topologies.trained_all(tmp_path, list(topologies.RECIPES), None, [], 1)
    assert Counter(each["team"] for each in found) == {
        **dict.fromkeys(topologies.RECIPES, 1),
        **dict.fromkeys(("chain", "debate", "manager"), 3),
        topologies.EQUAL: 1,
    }
    assert begun[-1] == ("single, 4 steps", 0), "as many tokens as the median of chain, debate, manager, ..."
    found = topologies.trained_all(tmp_path, ["single", "manager"], [5], [], 1)
    assert [each["team"] for each in found] == ["single", "manager", topologies.EQUAL]
    assert begun[-3:] == [("single", 5), ("manager", 5), ("single, 6 steps", 5)]


def test_runs_of_several_days_are_reported_together(
    begun: list[tuple[str, int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, whole = tmp_path / "kept.json", tmp_path / "whole.json"
    out = ["--out", str(tmp_path), "--json"]
    assert topologies.main(["--only", "chain", "manager", *out, str(kept)]) == 0
    assert topologies.main(["--only", "single", *out, str(whole), "--add", str(kept)]) == 0
    assert begun[-1] == ("single, 5 steps", 0), "as many tokens as the median of chain and manager"
    records = json.loads(whole.read_bytes())
    assert records[:6] == json.loads(kept.read_bytes())
    assert Counter(each["team"] for each in records) == {
        **dict.fromkeys(("chain", "manager"), 3),
        **dict.fromkeys(("single", topologies.EQUAL), 1),
    }
    capsys.readouterr()
    trained = len(begun)
    assert topologies.main(["--add", str(kept), str(whole)]) == 0
    assert topologies.main(["--only", "chain", "--add", str(whole)]) == 0
    assert len(begun) == trained, "a run that is known was trained again"
    said = capsys.readouterr().out
    assert "missed by single, manager, single, equal tokens" in said
    assert said.count("+50.0 [+3") == 2

    records[0]["after"] = "1" * 10
    kept.write_text(json.dumps(records[:1]))
    with pytest.raises(SystemExit, match="another run of chain with seed 0"):
        topologies.main(["--add", str(whole), str(kept)])


def test_several_episodes_of_a_task_stay_one_task_in_a_record() -> None:
    rows = [Result("x", 1.0, 3, i, f"{i // 4}", "", i % 2 == 0, 0.0, {}) for i in range(8)]
    record = {"seed": 3, "temperature": 1.0, **compared.kept(rows, rows)}
    assert record["before"] == "10101010"
    assert [row.task_id for row in compared.successes([record], "after")] == ["0"] * 4 + ["1"] * 4
    assert "tasks" not in compared.kept(rows[::4], rows[::4])
    with pytest.raises(AssertionError, match="other seeds or tasks"):
        compared.kept(rows, rows[::-1])


def test_an_interrupted_run_is_the_last(begun: list[tuple[str, int]], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        topologies.trained_all(tmp_path, ["single", "chain"], [9, 1, 2, 3], [], 1)
    assert len(begun) <= 2  # the next one may have begun before the first one's end was noticed
