"""A whole run on a cluster of several nodes learns what it learns on one machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mappa_env.trace import Traces
from mappa_rl.config import load_config
from mappa_rl.training.trainer import train
from ray_cluster import nodes
from tiny_run import TINY

SMALL = (*TINY, "warmstart.steps=60", "rollout.temperature=0.7", "run.steps=3", "env.sandbox=local")
SHORT = (
    "warmstart.episodes=1200",
    "warmstart.steps=300",
    "eval.episodes=40",
    "eval.calibration_temperatures=[]",
    "run.steps=5",
    "run.torch_threads=1",
    "run.tensorboard=false",
)
"""The demo's own models, episodes of a step and sandbox, with fewer steps."""


def metrics(out: Path) -> list[dict[str, Any]]:
    """Everything of a run that does not measure time."""
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: row[key] for key in row if not key.startswith(("time", "tokens_per_s"))} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "settings"),
    [(2, SMALL), pytest.param(4, SHORT, marks=pytest.mark.large)],
    ids=["smaller, on two nodes", "on four nodes"],
)
def test_the_demo_learns_bit_for_bit_the_same(count: int, settings: tuple[str, ...], tmp_path: Path) -> None:
    here, there = tmp_path / "local", tmp_path / "ray"
    train(load_config("demo", [*settings, f"out={here}"]), here)
    start = [f"warmstart.path={here / 'warmstart'}", "cluster=ray", "cluster.env_cpus=0.5"]
    with nodes(count) as cluster:
        more = [*start, f"cluster.address={cluster.address}", "cluster.envs_per_worker=4"]
        train(load_config("demo", [*settings, *more, f"out={there}"]), there)
    assert metrics(here) == metrics(there)
    assert len(metrics(here)) >= 3
    rewards = [[a.reward for a in each.trajectory.actions] for each in Traces(here)]
    assert rewards == [[a.reward for a in each.trajectory.actions] for each in Traces(there)]
    assert len({reward for episode in rewards for reward in episode}) > 2, "something was worth comparing"
