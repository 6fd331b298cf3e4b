"""Data that change after an environment was made raise nothing in ``reset`` and ``step``, and earn none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest

from mappa_env.cli import main
from mappa_env.data.tabular import dsbench
from mappa_env.envs.team_env import TeamEnv
from mappa_env.episode.episode import Episode
from mappa_env.errors import DataError, DataWarning
from mappa_env.evaluation import playing
from mappa_env.registration import card_of, find_card
from mappa_env.scripted import make_team
from mappa_env.trace import read
from releases import plain_release

ENV = "mappa/DSBench-v0"
NAME = "titanic"
TASK = {"task_id": NAME}
Change = Callable[[Path], object]


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


CHANGES: dict[str, Change] = {
    "deleted": Path.unlink,
    "emptied": lambda path: path.write_text(""),
    "one value changed": lambda path: path.write_text(path.read_text().replace("1", "2")),
    "binary": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "larger than the machine": lambda path: path.open("r+b").truncate(1 << 40),
    "a pipe": _pipe,
}
FILES = ["train.csv", "test.csv", "sample_submission.csv", "test_answer.csv"]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return plain_release(tmp_path / "release", only=(NAME, "bike-sharing-demand"))


def table(release: Path, name: str = "train.csv") -> Path:
    (found,) = [path for path in release.rglob("*.csv") if path.name == name and path.parent.name == NAME]
    return found


def options(release: Path, **more: Any) -> dict[str, Any]:
    return {"tasks": str(release), "sandbox": "null", **more}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_voids_its_task_and_no_other(release: Path, name: str, change: str) -> None:
    env = gym.make(ENV, **options(release))
    try:
        path = table(release, name)
        CHANGES[change](path)
        with pytest.warns(DataWarning, match=f"{NAME}.*{path.name if change == 'deleted' else ''}"):
            observation, info = env.reset(seed=0, options=TASK)
        assert (info["task_id"], info["task/status"]) == (NAME, "unavailable")
        assert NAME in observation["prompt"] == info["messages"][0]["content"]
        assert env.observation_space.contains(observation)
        _, reward, terminated, truncated, info = env.step("```python\nprint(1)\n```")
        assert (reward, terminated, truncated, info["reward_valid"]) == (0.0, True, False, False)
        assert (info["outcome/status"], info["outcome/success"]) == ("unavailable", False)
        assert info["coach/status"] == "abstain"
        assert (info["rewards"], info["rewards_valid"]) == ([0.0], [False])
        _, info = env.reset(options={"task_id": "bike-sharing-demand"})
        assert info["task/status"] == "ok"
    finally:
        env.close()


def test_added_data_are_pinned_too(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    dsbench.add(release)
    env = gym.make(ENV, tasks="added-train", sandbox="null")
    path = table(release)
    path.write_text(path.read_text().replace("1", "2"))  # as many bytes as before
    with pytest.warns(DataWarning, match="has changed"):
        assert env.reset(seed=0, options=TASK)[1]["task/status"] == "unavailable"
    env.close()


@pytest.mark.parametrize("shaping", ["process", "outcome", "backward"])
@pytest.mark.parametrize("judging", ["blocking", "deferred"])
def test_every_shaping_and_judging_ends_it_without_a_reward(
    release: Path, shaping: str, judging: str
) -> None:
    env = TeamEnv(card_of(ENV), **options(release, shaping=shaping, judging=judging, coach="rubric"))
    table(release).unlink()
    with pytest.warns(DataWarning):
        env.reset(np.random.default_rng(0), TASK)
    env.act("x")
    assert env.episode.over
    assert env.rewards == [(0.0, False)]
    env.close()


@pytest.mark.parametrize("agent", ["engineer_0", "modeller_0", "analyst_0", "last"])
def test_partners_do_not_play_a_void_task(release: Path, agent: str) -> None:
    names = find_card(card_of(ENV)).team.names
    env = gym.make(ENV, **options(release, agent=agent if agent in names else names[-1]))
    table(release).unlink()
    with pytest.warns(DataWarning):
        _, info = env.reset(seed=0, options=TASK)
    assert info["task/status"] == "unavailable"
    _, reward, terminated, _, info = env.step("x")
    assert (reward, terminated, info["reward_valid"], info["outcome/status"]) == (
        0.0,
        True,
        False,
        "unavailable",
    )
    env.close()


@pytest.mark.parametrize("kind", ["aec", "parallel"])
def test_pettingzoo_ends_it_after_a_step(release: Path, kind: str) -> None:
    env = pettingzoo.make(kind, ENV, **options(release))
    table(release).unlink()
    with pytest.warns(DataWarning):
        env.reset(seed=0, options=TASK)
    if kind == "aec":
        env.step("x")
        assert all(env.terminations.values())
        for _ in list(env.agents):
            env.step(None)
    else:
        _, rewards, terminations, _, infos = env.step(
            {name: "x" for name, info in _infos(env).items() if info["active"]}
        )
        assert all(terminations.values())
        assert set(rewards.values()) == {0.0}
        assert {info["outcome/status"] for info in infos.values()} == {"unavailable"}
    assert not env.agents
    env.close()


def _infos(env: Any) -> dict[str, dict[str, Any]]:
    return env.unwrapped._observe(env.agents, {})[1]  # type: ignore[no-any-return]


def test_a_vector_environment_plays_the_others(release: Path) -> None:
    envs = gym.make_vec(ENV, num_envs=2, **options(release))
    table(release).unlink()
    with pytest.warns(DataWarning):
        _, infos = envs.reset(seed=[0, 1], options=TASK)
    assert infos["task/status"].tolist() == ["unavailable"] * 2
    _, rewards, over, _, infos = envs.step(["x", "y"])
    assert (rewards.tolist(), over.tolist()) == ([0.0, 0.0], [True, True])
    envs.close()


def test_a_void_episode_is_recorded_and_forked(release: Path, tmp_path: Path) -> None:
    env = TeamEnv(card_of(ENV), record=str(tmp_path / "t.jsonl"), **options(release))
    env.reset(np.random.default_rng(0), TASK)
    while not env.episode.over:
        env.act("x")
    table(release).unlink()
    with pytest.warns(DataWarning):
        env.reset(np.random.default_rng(0), TASK)
    twin = env.episode.fork()
    env.act("x")
    twin.act("x")
    assert twin.outcome == env.episode.outcome
    twin.close()
    env.close()
    assert [each.outcome.status for each in read(tmp_path / "t.jsonl") if each.outcome][1:] == ["unavailable"]


def test_a_recorded_episode_is_not_replayed_on_other_data(release: Path) -> None:
    episode = Episode(find_card(card_of(ENV)), **options(release))
    episode.reset(seed=0, task_id=NAME)
    while not episode.over:
        episode.act("x")
    whole = episode.trajectory
    table(release).unlink()
    with pytest.warns(DataWarning), pytest.raises(DataError, match=NAME):
        episode.replay(whole)
    with pytest.raises(DataError, match=NAME):
        make_team("dsbench").reset(episode.task, 0)
    episode.close()


def test_the_reference_is_not_computed_from_changed_files(release: Path) -> None:
    task = dsbench.load(str(release)).get(NAME)
    path = table(release)
    path.write_text(path.read_text() + path.read_text().partition("\n")[2])
    with pytest.raises(DataError, match=r"train\.csv has changed"):
        task.truth["reference"]


@pytest.mark.parametrize("when", ["an episode starts", "a thread opens its environment"])
def test_an_evaluation_plays_the_others_and_says_which_it_could_not(
    release: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    path = table(release)
    owner, name = (Episode, "reset") if when == "an episode starts" else (playing, "TeamEnv")
    whole = getattr(owner, name)

    def late(*args: Any, **options: Any) -> Any:
        path.unlink(missing_ok=True)
        return whole(*args, **options)

    monkeypatch.setattr(owner, name, late)
    arguments = ["eval", ENV, "--sandbox", "null", "--tasks", str(release), "--model", "constant:x"]
    assert main([*arguments, "--out", str(tmp_path / "e")]) == 2
    said = capsys.readouterr().err
    assert "1 of 2 episodes could not be played" in said
    assert "cannot be played" in said
    rows = [json.loads(line) for line in (tmp_path / "e" / "episodes.jsonl").read_text().splitlines()]
    assert [row["task_id"] for row in rows] == ["bike-sharing-demand"]
