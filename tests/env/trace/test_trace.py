"""The trace store returns whole episodes unchanged, whatever happens to the file meanwhile."""

from __future__ import annotations

import dataclasses
import json
import math
import multiprocessing
from pathlib import Path

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.errors import DataError
from mappa_env.trace import Traces, TraceStore, read
from mappa_env.types import Attribution, Task, Trajectory

SAMPLE = Path(__file__).with_name("version1.jsonl")
TEXTS = ["plan: 6 * 7", "```python\nprint(6 * 7, 'é')\n```", "result: 42", "answer: \\boxed{42} \ud800"]


def play(**options: object) -> Trajectory:
    env = gym.make("mappa/MathChat-v0", **options)
    env.reset(seed=1)
    for text in TEXTS:
        env.step(text)
    trajectory: Trajectory = team_env(env).trajectory
    env.close()
    return trajectory


@pytest.fixture(scope="module")
def episode() -> Trajectory:
    return play()


def public(trajectory: Trajectory) -> Trajectory:
    """The expected content of a trace, without hidden truth and files."""
    task = trajectory.task
    kept = Task(task.id, task.prompt, task.metric, task.compact, task.topic, task.split)
    return dataclasses.replace(trajectory, task=kept)


def test_recording_gives_the_episode_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "trace.jsonl"
    episode = play(record=str(path))
    assert list(read(path)) == [public(episode)]
    assert len(episode.actions) == 4
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kinds = [line["kind"] for line in lines]
    assert [kind for kind in kinds if kind not in ("text", "card")] == ["action"] * 4 + ["episode"]
    assert {line["v"] for line in lines} == {2}


def test_truth_is_never_written(tmp_path: Path, episode: Trajectory) -> None:
    secret = "TOP-SECRET-ANSWER"
    task = dataclasses.replace(
        episode.task, truth={"answer": secret}, meta={"expr": secret}, files={"a.csv": secret.encode()}
    )
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(dataclasses.replace(episode, task=task))
    store.close()
    assert secret not in store.path.read_text("utf-8")


def test_appending_continues_a_file(tmp_path: Path, episode: Trajectory) -> None:
    for _ in range(2):
        store = TraceStore(tmp_path / "t.jsonl")
        store.append(episode)
        store.append(episode)
        store.close()
    assert list(read(tmp_path / "t.jsonl")) == [public(episode)] * 4


@pytest.mark.parametrize("lost", [1, 20, 2000])
def test_a_torn_end_costs_only_its_own_episode(tmp_path: Path, episode: Trajectory, lost: int) -> None:
    path = tmp_path / "t.jsonl"
    store = TraceStore(path)
    store.append(episode)
    store.append(episode)
    store.close()
    data = path.read_bytes()
    path.write_bytes(data[:-lost])
    later = TraceStore(path)
    later.append(dataclasses.replace(episode, seed=99))
    later.close()
    seeds = [trajectory.seed for trajectory in read(path)]
    whole = [episode.seed] * (2 if lost == 1 else 1)  # if only the newline is missing, nothing is lost
    assert seeds == [*whole, 99]


def append_many(path: str, episode: Trajectory, seed: int) -> None:
    store = TraceStore(path)
    for _ in range(50):
        store.append(dataclasses.replace(episode, seed=seed))
    store.close()


def test_processes_share_a_file(tmp_path: Path, episode: Trajectory) -> None:
    path = str(tmp_path / "t.jsonl")
    workers = [
        multiprocessing.get_context("fork").Process(target=append_many, args=(path, episode, seed))
        for seed in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = list(read(path))
    assert sorted(trajectory.seed for trajectory in found) == [seed for seed in range(3) for _ in range(50)]
    assert all(len(trajectory.actions) == 4 for trajectory in found)


def test_numbers_json_lacks_survive(tmp_path: Path, episode: Trajectory) -> None:
    assert episode.outcome is not None
    outcome = dataclasses.replace(episode.outcome, metrics={"rmse": math.nan, "n": math.inf})
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(dataclasses.replace(episode, outcome=outcome))
    store.close()
    (found,) = read(store.path)
    assert found.outcome is not None
    assert math.isnan(found.outcome.metrics["rmse"])
    assert found.outcome.metrics["n"] == math.inf


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"v": 3, "kind": "action"}\n')
    with pytest.raises(DataError, match="lines of version 3, but this version of mappa reads 2 and 1"):
        list(read(path))


def test_attributions_survive(tmp_path: Path, episode: Trajectory) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    fractions = tuple(1.0 if step == 0 else 0.0 for step in range(len(episode.actions)))
    store.append(dataclasses.replace(episode, attribution=Attribution(True, fractions, "tracing")))
    store.close()
    (found,) = read(store.path)
    assert found.attribution is not None
    assert found.attribution.fractions == fractions


def test_traces_of_version_1_still_open() -> None:
    """Two episodes that version 1 recorded: a faulty team, then an expert one."""
    failed, won = read(SAMPLE)
    assert failed.outcome is not None
    assert won.outcome is not None
    assert (failed.outcome.success, won.outcome.success) == (False, True)
    assert [action.agent for action in failed.actions] == ["solver_0", "coder_0", "coder_0", "verifier_0"]
    assert [action.verdict.score for action in failed.actions] == [1.0, 8.0, 10.0, 0.0]
    assert failed.actions[1].tool is not None
    assert failed.actions[1].tool.stdout == "1\n"
    summaries = list(Traces(SAMPLE).summaries)
    assert [summary.success for summary in summaries] == [False, True]
    assert [action.score for action in summaries[0].actions] == [1.0, 8.0, 10.0, 0.0]


def test_both_versions_share_a_file(tmp_path: Path, episode: Trajectory) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(SAMPLE.read_bytes())
    store = TraceStore(path, packs=True)  # what version 1 wrote stays as it is
    store.append(episode)
    store.close()
    assert [trajectory.seed for trajectory in read(path)][2:] == [episode.seed]
    assert path.read_bytes().startswith(SAMPLE.read_bytes())


def test_an_old_name_in_an_attribution_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    shares = '"attribution":{"failed":true,"shares":[1.0],"decided":"tracing"}'
    text = SAMPLE.read_text("utf-8")
    assert '"attribution":null' in text
    path.write_text(text.replace('"attribution":null', shares), "utf-8")
    with pytest.raises(DataError, match=r"'shares', now called 'fractions': read the file with the version"):
        list(read(path))


@pytest.mark.parametrize(
    "row", ['{"v": 1, "kind": "episode"}', '{"v": 1, "kind": "episode", "actions": "x"}']
)
def test_another_kind_of_file_is_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(row + "\n")
    with pytest.raises(DataError, match="not a trajectory"):
        list(read(path))


def test_unfinished_episodes_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    env = gym.make("mappa/MathChat-v0", record=str(path), sandbox="null", coach="off")
    env.reset(seed=1)
    env.step("plan: 1")
    env.reset(seed=2)
    env.close()
    assert not path.exists()
