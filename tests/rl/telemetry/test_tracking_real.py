"""W&B and Weave by their real packages, where they are installed: offline, and against a loopback server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_wandb import FakeWeave, records, serving_weave
from mappa_rl.config import load_config
from mappa_rl.telemetry.sinks import read_metrics, sinks_of
from mappa_rl.telemetry.tracking import WANDB_ID
from mappa_rl.training.trainer import train
from synthetic_run import trajectory
from tiny_run import TINY

KEY = "0123456789abcdef0123456789abcdef01234567"
pytestmark = pytest.mark.slow


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """And without a key."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)


@pytest.fixture
def weave(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWeave]:
    pytest.importorskip("weave")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WEAVE_IMPLICITLY_PATCH_INTEGRATIONS", "false")
    with serving_weave() as fake:
        monkeypatch.setenv("WANDB_BASE_URL", fake.url)
        monkeypatch.setenv("WF_TRACE_SERVER_URL", fake.url)
        yield fake


def config_of(*overrides: str) -> Any:
    return load_config("demo", ["run.tensorboard=false", *overrides])


def logged(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics in the files that W&B would sync, in the order of the files' names."""
    from wandb.proto import wandb_internal_pb2

    rows = []
    for path in sorted((folder / "wandb").glob("offline-run-*/*.wandb")):
        for data in records(path):
            record = wandb_internal_pb2.Record.FromString(data)
            if record.HasField("history"):
                items = record.history.item
                rows.append(
                    {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
                )
    return rows


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name == "_step" or not name.startswith("_")}


@pytest.mark.usefixtures("offline")
def test_wandb_offline_keeps_each_number_once(tmp_path: Path) -> None:
    """A file for the run and one for its resume, of the same run; the folder alone is written to."""
    notes: list[str] = []
    for first, resumed_at in ((1, None), (3, 2)):
        with sinks_of(config_of("run.wandb=teams"), tmp_path, notes.append, resumed_at=resumed_at) as sinks:
            sinks.log(first, {"success": first / 10, "reward/solver_0": -0.5})
            sinks.log(first + 1, {"success": (first + 1) / 10})
        time.sleep(1.1)  # W&B names its folders by the second
    assert notes == []
    assert [shown(row) for row in logged(tmp_path)] == [
        {"_step": 1, "success": 0.1, "reward/solver_0": -0.5},
        {"_step": 2, "success": 0.2},
        {"_step": 3, "success": 0.3, "reward/solver_0": -0.5},
        {"_step": 4, "success": 0.4},
    ]
    identity = json.loads((tmp_path / WANDB_ID).read_text())["id"]
    files = list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert [path.stem for path in files] == [f"run-{identity}"] * 2


@pytest.mark.usefixtures("offline")
def test_a_whole_run_logs_the_same_to_wandb_as_to_its_own_file(tmp_path: Path) -> None:
    out = train(config_of(*TINY, "run.steps=2", "run.wandb=teams"), tmp_path / "run")
    ours = read_metrics(out)
    theirs = [shown(row) for row in logged(out)]
    assert len(ours) == 2
    assert [row.pop("step") for row in ours] == [row.pop("_step") for row in theirs]
    for own, copy in zip(ours, theirs, strict=True):
        assert copy == pytest.approx(own)


def test_weave_gets_each_action_under_its_episode(weave: FakeWeave, tmp_path: Path) -> None:
    episode = trajectory(0, True)
    notes: list[str] = []
    with sinks_of(config_of("run.weave=team/teams"), tmp_path, notes.append) as sinks:
        sinks.episodes(3, [episode])
    assert notes == []
    whole, *actions = weave.calls()
    assert whole["parent_id"] is None
    assert "/op/episode:" in whole["op_name"]
    assert whole["inputs"] == {
        "env": episode.env_id,
        "task": episode.task.id,
        "seed": episode.seed,
        "step": 3,
    }
    assert whole["output"] == {"score": 1.0, "success": True}
    assert len(actions) == len(episode.actions) == 3
    for call, action in zip(actions, episode.actions, strict=True):
        assert call["parent_id"] == whole["id"]
        assert call["trace_id"] == whole["trace_id"]
        assert f"/op/{action.agent}:" in call["op_name"]
        assert call["inputs"] == {"messages": [dict(message) for message in action.messages]}
        assert call["output"]["action"] == action.action
        assert call["output"]["reward"] == action.reward
        assert call["output"]["verdict"] == {"status": action.verdict.status, "score": action.verdict.score}
    assert all(KEY.encode() not in body for _, body in weave.requests)


def test_a_trace_server_that_breaks_ends_no_run(weave: FakeWeave, tmp_path: Path) -> None:
    """Weave sends in the background and reports failures in its own log."""
    with sinks_of(config_of("run.weave=team/teams"), tmp_path, print) as sinks:
        weave.broken = True
        sinks.episodes(1, [trajectory(0, True)])
        sinks.log(1, {"success": 0.5})
        began = time.monotonic()
    assert time.monotonic() - began < 120
    assert weave.calls() == []
    assert [row["success"] for row in read_metrics(tmp_path)] == [0.5]


def test_a_trace_server_that_is_not_there_is_reported_once(
    weave: FakeWeave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weave.broken = True
    notes: list[str] = []
    with sinks_of(config_of("run.weave=team/teams"), tmp_path, notes.append) as sinks:
        sinks.episodes(1, [trajectory(0, True)])
        sinks.log(1, {"success": 0.5})
    (said,) = notes
    assert said.startswith("Weave failed and receives nothing more; the run continues")
    assert KEY not in said
