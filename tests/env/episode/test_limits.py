"""Limits that follow a task's tables, and tasks that a limit makes impossible."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path

import numpy as np
import pytest

import envs_registry
from mappa_env.cards import read_card
from mappa_env.data.tabular import baseline, dsbench, load
from mappa_env.data.tabular.dsbench import truth
from mappa_env.episode import limits as task_limits
from mappa_env.episode.episode import Episode
from mappa_env.episode.limits import FACTORS, TaskLimits
from mappa_env.errors import OptionError, SandboxError
from mappa_env.scripted import make_team
from mappa_env.types import Task

DSBENCH, SPRINT = (read_card(envs_registry.ROOT / name) for name in ("dsbench", "dsbench_sprint"))
MIB = 2**20


def of_size(folder: Path, size: int, name: str = "train.csv") -> Task:
    path = folder / name
    with path.open("wb") as stream:
        stream.write(b"id,a,b\n1,22,333\n")
        stream.truncate(size)
    return Task("big", "text", "rmse", files={name: path})


def written(root: Path, rows: int, columns: int, test_rows: int) -> Path:
    """A folder in DSBench's layout with one competition of two classes that the first columns tell apart."""
    rng = np.random.default_rng(0)
    data, answers = root / "data_resplit" / "large", root / "answers" / "large"
    data.mkdir(parents=True)
    answers.mkdir(parents=True)
    names = [f"v{i}" for i in range(columns)]
    block = rng.standard_normal((4000, columns)).round(4)
    label = (block[:, :3].sum(axis=1) > 0).astype(int)
    lines = [",".join(map(str, row)) for row in block.tolist()]
    with (data / "train.csv").open("w") as stream:
        stream.write(f"code,target,{','.join(names)}\n")
        stream.writelines(f"a{i},{label[i % 4000]},{lines[i % 4000]}\n" for i in range(rows))
    with (data / "test.csv").open("w") as stream:
        stream.write(f"code,{','.join(names)}\n")
        stream.writelines(f"b{i},{lines[(7 * i) % 4000]}\n" for i in range(test_rows))
    for path, values in (
        (data / "sample_submission.csv", np.zeros(test_rows, dtype=int)),
        (answers / "test_answer.csv", label[(7 * np.arange(test_rows)) % 4000]),
    ):
        path.write_text("code,target\n" + "".join(f"b{i},{v}\n" for i, v in enumerate(values)))
    row = {"prompt": "tell them apart", "metadata": {"task_id": "large"}}
    (root / "dsbench_modeling_train.json").write_text(json.dumps(row) + "\n")
    (root / "dsbench_modeling_eval.json").write_text("")
    texts = {"large": {"cleaned_prompt": "tell them apart", "metric": "roc_auc"}}
    (root / "dsbench_modeling_cleaned_prompts.json").write_text(json.dumps(texts))
    return root


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return written(tmp_path / "small", 300, 4, 100)


def test_small_tasks_have_the_limits_of_the_card() -> None:
    tasks = load("eval")
    for card in (DSBENCH, SPRINT):
        limits = TaskLimits(card.limits, {})
        assert {limits.of(tasks.get(task_id)) for task_id in tasks.ids[:10]} == {card.limits}


def test_limits_grow_with_the_tables_and_never_shrink(tmp_path: Path) -> None:
    limits = TaskLimits(DSBENCH.limits, {})
    before = DSBENCH.limits
    for size in (1, 30, 100, 300):
        found = limits.of(of_size(tmp_path, size * MIB))
        for key, factor in FACTORS.items():
            assert getattr(found, key) >= max(getattr(before, key), factor * size)
        before = found
    assert before.processes == DSBENCH.limits.processes


def test_cells_count_where_they_need_more_memory_than_their_text(tmp_path: Path) -> None:
    digits = tmp_path / "train.csv"
    digits.write_bytes(b"a,b,c,d\n" + b"0,1,0,1\n" * 5_000_000)
    found = task_limits.needed(Task("x", "text", "rmse", files={"train.csv": digits}))
    assert found["disk_mb"] == pytest.approx(FACTORS["disk_mb"] * 5e6 * 4 * 8 / MIB, rel=0.01)


def test_a_limit_that_makes_a_task_impossible_is_reported_before_the_episode(tmp_path: Path) -> None:
    task = of_size(tmp_path, 300 * MIB)
    for key in FACTORS:
        with pytest.raises(OptionError, match=f"limits.*{key}.*'big' impossible"):
            TaskLimits(DSBENCH.limits, {key: 5}).of(task)
    assert TaskLimits(DSBENCH.limits, {"memory_mb": 9999}).of(task).memory_mb == 9999
    with pytest.raises(SandboxError, match="impossible on this machine"):
        TaskLimits(DSBENCH.limits, {}).of(of_size(tmp_path, 2**42))


def test_an_episode_refuses_an_impossible_task(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_limits, "FACTORS", {"memory_mb": 1e6})
    episode = Episode(DSBENCH, tasks=str(small), coach="off", sandbox="null", limits={"memory_mb": 64})
    with pytest.raises(OptionError, match="'large' impossible"):
        episode.reset(seed=0)
    assert episode.over
    episode.close()


def test_small_limits_that_suffice_are_the_users_choice() -> None:
    episode = Episode(DSBENCH, coach="off", sandbox="null", limits={"memory_mb": 64, "wall_s": 0.5})
    episode.reset(seed=0)
    episode.close()
    fixed = TaskLimits(DSBENCH.limits, {"memory_mb": 64}).of(load("eval").get("eval-churn-003"))
    assert fixed == dataclasses.replace(DSBENCH.limits, memory_mb=64)


def test_the_reference_is_fitted_once_per_task(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[str] = []
    fit = baseline._forest
    monkeypatch.setattr(baseline, "_forest", lambda *given: fits.append("fit") or fit(*given))  # type: ignore[func-returns-value]

    def reference() -> None:
        dsbench.load(str(small)).get("large").truth["reference"]

    threads = [threading.Thread(target=reference) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reference()
    assert fits == ["fit"]
    answers = small / "answers" / "large" / "test_answer.csv"
    answers.write_text(answers.read_text().replace(",1\n", ",0\n", 1))
    reference()
    assert fits == ["fit", "fit"]


def test_a_test_table_is_read_in_parts(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reference() -> float:
        truth._hidden.cache_clear()
        return float(dsbench.load(str(small)).get("large").truth["reference"])

    whole = reference()
    monkeypatch.setattr(baseline, "CHUNK", 7)
    assert reference() == pytest.approx(whole)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # most of it reads and writes hundreds of megabytes
@pytest.mark.parametrize("rows", [20_000, pytest.param(160_000, marks=pytest.mark.large)])
def test_the_expert_succeeds_on_large_tables(tmp_path: Path, rows: int) -> None:
    """160,000 rows and 200 columns: a table of 229 MB, as some competitions have."""
    root = written(tmp_path / "large", rows, 200, rows // 4)
    episode = Episode(DSBENCH, tasks=str(root), coach="rubric")
    team = make_team("dsbench", "expert")
    episode.reset(seed=0)
    team.reset(episode.task, 0)
    while episode.agent:
        record = episode.act(team.act(episode.agent, episode.turn, episode.actions))
        assert record.tool is None or record.tool.status == "ok", record.tool
    outcome, rewards = episode.outcome, [reward for reward, _ in episode.rewards]
    episode.close()
    assert outcome is not None
    assert outcome.success
    assert outcome.score == pytest.approx(1.0, abs=0.1)
    assert min(rewards) >= 9.0, rewards
