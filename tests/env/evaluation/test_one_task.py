"""Figures of one task: it says nothing about others, so there is no interval."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cli import main
from mappa_env.evaluation.episodes import Played, Tokens, append
from mappa_env.evaluation.folder import RESULTS, begin, finish
from mappa_env.evaluation.plan import Plan

ENV = "mappa/AIME-v0"
ENDS = re.compile(r"\[-?\d+\.\d+, ")


def evaluated(folder: Path, *ids: str, samples: int = 1) -> Path:
    plan = Plan(envs=(ENV,), models={"*": {"name": "constant:5"}}, samples=samples)
    played = begin(folder, plan)
    for number, task in enumerate(ids):
        for sample in range(samples):
            won, metrics = (number + sample) % 2 == 0, {"length": 0.25 * (number + 1)}
            each = Played(
                ENV, task, sample, "aime", won, 0.7, "5", 1, {}, metrics, {"a": Tokens()}, {}, {}, 0.0
            )
            append(folder, each)
            played.append(each)
    finish(folder, played)
    return folder


def intervals(value: Any) -> list[dict[str, Any]]:
    """All intervals in a JSON document."""
    if isinstance(value, list):
        return [found for each in value for found in intervals(each)]
    if not isinstance(value, dict):
        return []
    inner = [found for each in value.values() for found in intervals(each)]
    return [value, *inner] if "low" in value else inner


@pytest.mark.parametrize("samples", [1, 4])
def test_an_evaluation_of_one_task_has_no_intervals(
    samples: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = evaluated(tmp_path / "one", "aime-2020-1", samples=samples)
    document, page = tmp_path / "rows.json", tmp_path / "page.html"
    assert main(["leaderboard", str(one), "--json", str(document), "--html", str(page)]) == 0
    assert not ENDS.search(capsys.readouterr().out)
    assert not ENDS.search(page.read_text())
    assert "nan" not in page.read_text()
    found = intervals(json.loads((one / RESULTS).read_text())) + intervals(json.loads(document.read_text()))
    assert len(found) >= 5
    assert all((each["low"], each["high"], each["n"]) == (None, None, 1) for each in found)
    two = evaluated(tmp_path / "two", "aime-2020-1", "aime-2020-2", samples=samples)
    assert main(["leaderboard", str(two), "--html", str(page)]) == 0
    assert ENDS.search(capsys.readouterr().out)
    assert ENDS.search(page.read_text())
    assert None not in [each["low"] for each in intervals(json.loads((two / RESULTS).read_text()))]


def test_an_evaluation_of_an_earlier_version_with_such_intervals_is_still_ranked(tmp_path: Path) -> None:
    one = evaluated(tmp_path / "one", "aime-2020-1")
    results = json.loads((one / RESULTS).read_text())
    for each in intervals(results):
        each["low"] = each["high"] = each["mean"]
    (one / RESULTS).write_text(json.dumps(results))
    assert main(["leaderboard", str(one)]) == 0


def test_a_year_of_one_task_has_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = ["aime-2019-1", "aime-2020-1", "aime-2020-2", "aime-2021-1"]
    folder, other = evaluated(tmp_path / "e", *ids), evaluated(tmp_path / "f", *ids[::-1])
    out = tmp_path / "report.json"
    for more in ([], ["--reference", str(other)]):
        asked = ["contamination", str(folder), "--cutoff", "2020", "--json", str(out), *more]
        assert main(asked) == 0
        shown = capsys.readouterr().out
        found = json.loads(out.read_text())["reports"][0]
        assert {year: each["low"] is None for year, each in found["years"].items()} == {
            "2019": True,
            "2020": False,
            "2021": True,
        }
        gap = {side: found["gap"][side]["low"] is None for side in ("before", "after", "difference")}
        assert gap == {"before": False, "after": True, "difference": True}
        assert "nan" not in shown
