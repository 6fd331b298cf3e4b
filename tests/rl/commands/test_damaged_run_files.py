"""Files of a run that are nested too deeply are damaged files: one line names them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from mappa_rl.cluster.roll import call_roll
from mappa_rl.cluster.session import RECORD
from mappa_rl.commands.status import _last
from mappa_rl.config.command_lines import COMMANDS, read_commands
from mappa_rl.config.overrides import read_yaml
from mappa_rl.errors import ClusterError, ConfigError, RunError
from mappa_rl.evaluation.calibration import CALIBRATION, read_calibration
from mappa_rl.evaluation.results import FOLDER, Result, load_results
from mappa_rl.telemetry.sinks import METRICS, read_metrics

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        (COMMANDS, f"{DEEP}\n", read_commands),
        (CALIBRATION, DEEP, read_calibration),
        (f"{FOLDER}/final.jsonl", f"{DEEP}\n", load_results),
        (METRICS, f"{DEEP}\n", read_metrics),
        (METRICS, DEEP + "}", lambda out: _last(out / METRICS)),
        (METRICS, "{x}\n", lambda out: _last(out / METRICS)),
    ],
)
def test_a_damaged_file_of_a_run_is_named(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(RunError, match=path.name):
        read(tmp_path)


@pytest.mark.parametrize("text", [DEEP, "{}", "[]", '{"address": "a", "namespace": "b"}'])
def test_a_damaged_record_of_a_cluster_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(ClusterError, match=rf"{RECORD} is damaged"):
        call_roll(tmp_path)


@pytest.mark.parametrize(
    "more",
    [
        {"success": "yes"},
        {"success": 1},
        {"score": "high"},
        {"index": "0"},
        {"rewards": []},
        {"rewards": {"a": "b"}},
        {"metrics": {"a": "b"}},
        {"temperature": "cold"},
        {"other": 1},
    ],
)
def test_a_result_of_other_types_is_named(tmp_path: Path, more: dict[str, object]) -> None:
    row: dict[str, object] = dataclasses.asdict(
        Result("after", 1.0, 0, 0, "t", "x", True, 1.0, {"a": 1.0}, {"m": math.nan}, "7")
    )
    path = tmp_path / FOLDER / "after.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(row) + "\n")
    assert load_results(tmp_path)["after", 1.0][0].answer == "7"
    path.write_text(json.dumps(row | more) + "\n")
    with pytest.raises(RunError, match=r"after\.jsonl is not an evaluation \("):
        load_results(tmp_path)


@pytest.mark.parametrize("text", ["[" * 2000, "!!timestamp '1'", "a: !!float x"])
def test_a_recipe_that_is_no_yaml_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"recipe\.yaml is n"):
        read_yaml(text, "recipe.yaml")
