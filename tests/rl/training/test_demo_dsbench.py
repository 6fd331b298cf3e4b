"""The recipe on tabular tasks: what is held out, what it would do, and a miniature of it from end to end."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.data.tabular import TabularTasks
from mappa_rl.cli import main
from mappa_rl.config import load_config
from mappa_rl.evaluation.results import load_results
from mappa_rl.evaluation.summary import read_summary
from mappa_rl.telemetry.stopwatch import KINDS

MINIATURE = [
    "env.task_options={variants: 1}",  # 342 tasks to take names from instead of 2,052
    "warmstart.episodes=8",
    "warmstart.steps=4",
    "warmstart.warmup_steps=1",
    "warmstart.batch_size=4",
    "model.hidden=32",
    "model.layers=1",
    "model.mlp=64",
    "rollout.episodes_per_step=4",
    "rollout.max_new_tokens=12",
    "eval.episodes=3",
    "eval.calibration_episodes=2",
    "eval.calibration_temperatures=[0.5]",
    "run.steps=1",
    "run.tensorboard=false",
]


def tasks(split: str) -> TabularTasks:
    config = load_config("demo_dsbench")
    env = gym.make(config.env.id, **config.env.options(split))  # type: ignore[arg-type]
    found: TabularTasks = team_env(env).episode.tasks
    env.close()
    return found


@pytest.mark.slow
def test_names_and_a_whole_data_set_are_held_out() -> None:
    config = load_config("demo_dsbench")
    held_out, training = tasks("eval"), tasks("train")
    assert config.eval.episodes == len(held_out.ids)  # each held-out task once
    some = training.ids[::5]  # of every source, and under each of the six sets of names
    sides = [[held_out.get(i) for i in held_out.ids], [training.get(i) for i in some]]
    for key in ("id", "target"):
        names = [{task.meta[key] for task in side} for side in sides]
        assert not names[0] & names[1]
    features = [
        {name for t in side for k in ("num", "cat") for name in t.meta["columns"][k]} for side in sides
    ]
    assert not features[0] & features[1]
    sets = [{task.meta["dataset"] for task in side} for side in sides]
    assert sets[0] - sets[1] == {"wine", "cellar"}  # the wine table, asked for its grower or for a value
    assert {"cancer", "diabetes", "digits", "wine"} <= {t.meta["dataset"] for t in sides[0] if t.meta["real"]}
    assert not {task.id for task in sides[0]} & {task.id for task in sides[1]}


def test_the_dry_run_says_that_there_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "demo_dsbench", "--dry-run", "--no-rehearsal", "--seeds", "0,1,2"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == "problems: none"
    assert "runs: 3 seeds (0, 1, 2) = 3 runs" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_miniature_of_the_recipe_runs_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", "demo_dsbench", f"out={out}", *MINIATURE]) == 0
    shown = capsys.readouterr().out
    assert "wall time" in shown
    assert "held-out quality" in shown
    assert shown.splitlines()[-1] == str(out)

    summary = read_summary(out)
    assert summary is not None
    assert list(summary.work) == list(summary.phases)
    assert sum(summary.fractions.values()) == pytest.approx(1)
    for phase, seconds in summary.phases.items():
        assert set(summary.work[phase]) <= set(KINDS)
        assert sum(summary.work[phase].values()) == pytest.approx(seconds, abs=0.2)
    assert summary.work["demonstrations"]["sandbox"] > 0
    assert summary.work["warm start"]["learner"] > 0
    assert summary.work["training"]["generation"] > 0
    for arm in summary.arms.values():
        assert {"accuracy_fair", "rmse_fair"} & set(arm.measures)
        assert arm.delta.n == 3
    # Only the evaluation that is kept as traces asks the coach.
    judged = {key: all(row.rewards for row in rows) for key, rows in load_results(out).items()}
    assert judged == {key: key[1] == 1.0 for key in judged}
