"""Damaged files of a run: one line names them."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from mappa_rl.cluster import roll
from mappa_rl.cluster.session import RECORD
from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.commands.status import described
from mappa_rl.config.command_lines import COMMANDS, read_commands
from mappa_rl.config.overrides import read_yaml
from mappa_rl.config.run_folder import CONFIG, LOCK
from mappa_rl.errors import ClusterError, ConfigError, RunError
from mappa_rl.evaluation.calibration import CALIBRATION, read_calibration
from mappa_rl.evaluation.results import FOLDER, Result, load_results
from mappa_rl.telemetry.sinks import METRICS, Metrics, read_metrics

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        (COMMANDS, f"{DEEP}\n", read_commands),
        (CALIBRATION, DEEP, read_calibration),
        (f"{FOLDER}/final.jsonl", f"{DEEP}\n", load_results),
        (METRICS, f"{DEEP}\n", read_metrics),
        (METRICS, f"{DEEP}}}\n", lambda out: list(described(out))),
        (METRICS, "{x}\n", lambda out: list(described(out))),
        (METRICS, '{"step": "x", "success": 0.5}\n', lambda out: list(described(out))),
        (METRICS, '{"step": 3, "success": "x"}\n', lambda out: list(described(out))),
        (METRICS, '{"step": 3, "success": true}\n', lambda out: list(described(out))),
        (METRICS, '{"step": true}\n', read_metrics),
        (METRICS, '{"step": 3, "loss": {"policy": 1}}\n', read_metrics),
    ],
)
def test_a_damaged_file_of_a_run_is_named(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    (tmp_path / CONFIG).write_text("{}")
    with pytest.raises(RunError, match=path.name):
        read(tmp_path)


def test_the_status_of_a_run_with_bytes_that_are_no_text_names_the_file(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text("{}")
    (tmp_path / METRICS).write_bytes(b'{"step": 3, "success": 0.5}\n\xff\xfe\n')
    with pytest.raises(RunError, match=rf"{METRICS}, line 2 is not JSON"):
        list(described(tmp_path))
    (tmp_path / METRICS).unlink()
    (tmp_path / LOCK).write_bytes(b"process \xff\n")
    with (tmp_path / LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "at work: process \ufffd" in list(described(tmp_path))


def test_a_success_that_was_not_finite_is_unknown(tmp_path: Path) -> None:
    """It is written as null."""
    (tmp_path / CONFIG).write_text("run: {steps: 7}")
    with Metrics(tmp_path, tensorboard=False) as metrics:
        metrics.log(3, {"success": math.nan})
    assert list(described(tmp_path))[1].startswith("step 3 of 7, 0:00 ago: success unknown")


def test_a_folder_of_another_name_is_no_checkpoint(tmp_path: Path) -> None:
    for name in ("step-x", "step-000004", "step-000009-copy"):
        folder = tmp_path / "checkpoints" / name
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
    assert newest_step(tmp_path) == 4


RECORDED: dict[str, object] = {
    "address": "127.0.0.1:9",
    "namespace": "x",
    "token": "",
    "leader": {"pid": 1, "node": "n", "address": "127.0.0.1"},
    "roles": {"leader": "trains"},
    "wants": {},
}


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "{}",
        "[]",
        '{"address": "a", "namespace": "b"}',
        *(
            json.dumps(RECORDED | change)
            for change in (
                {"address": None},
                {"address": 7},
                {"namespace": None},
                {"token": 1},
                {"roles": []},
                {"roles": {"leader": 1}},
                {"wants": "1 CPU"},
                {"leader": None},
                {"leader": {"pid": 1, "node": "n"}},
                {"leader": {"pid": 1, "node": 7, "address": "a"}},
            )
        ),
    ],
)
def test_a_damaged_record_of_a_cluster_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def visit(*_: object) -> None:
        raise AssertionError("no cluster is asked")

    monkeypatch.setattr(roll, "visit", visit)
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(ClusterError, match=rf"{RECORD} is damaged"):
        roll.call_roll(tmp_path)
    (tmp_path / RECORD).write_text(json.dumps(RECORDED))
    with pytest.raises(AssertionError, match="no cluster"):
        roll.call_roll(tmp_path)


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
