"""The scripted DSBench team on competitions whose features are texts alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mappa_env.data.tabular.dsbench.release import Release
from mappa_env.data.tabular.dsbench.tasks import DSBenchTasks
from mappa_env.scripted import make_team
from mappa_env.scripted.dsbench import SCRIPT
from mappa_env.scripted.text_tables import only_texts
from mappa_env.types import Task
from pipelines import play_all
from releases import competition

NAME = "nlp-getting-started"
WORDS = ("fire", "sun", "cat", "dog", "run", "sea")
ROWS = 150


def tweets(root: Path) -> Task:
    """Made-up tweets, of which those with "fire" are disasters; each is another text."""
    rows: list[list[object]] = []
    for i in range(ROWS):
        said = [WORDS[(i * step) % len(WORDS)] for step in (1, 7, 11)]
        rows.append([i, f"{' '.join(said)} #{i}", int("fire" in said)])
    competition(root, NAME, ["id", "text", "target"], rows, "sample_submission.csv")
    task = DSBenchTasks(Release(root / "data"), "all").get(NAME)
    files = {
        name: each if isinstance(each, bytes) else each.read_bytes() for name, each in task.files.items()
    }
    return dataclasses.replace(task, files=files)


@pytest.mark.slow
def test_the_expert_beats_a_constant_and_every_fault_shows(tmp_path: Path) -> None:
    task = tweets(tmp_path)
    assert only_texts(task)
    faults = [(f"{role}_0", fault) for role, names in SCRIPT.faults.items() for fault in names]
    cases = {f"{agent} {fault}": (task, "full", agent, fault) for agent, fault in faults}
    plays = play_all(tmp_path / "plays", {"expert": (task, "full", "", ""), **cases})
    expert = plays.pop("expert")
    assert expert.exits == [0, 0, 0], expert.outputs
    assert (expert.outcome.status, expert.outcome.metrics["beats_constant"]) == ("ok", 1.0)
    assert expert.facts["X_train"]["numeric"]
    assert all(expert.facts["checks"][key] for key in ("columns_match", "rows_match", "test_rows_match"))
    for name, play in plays.items():
        if "leaks_target" not in name:  # the target is no text, and trees of this size find both
            assert play.outcome.score < expert.outcome.score, name


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({}, True),
        ({"train.csv": b"id,text,target\n1,a,0\n2,b,1\n"}, False),  # few levels: one-hot
        ({"train.csv": b""}, False),
        ({"train.csv": b"id,words,target\n1,a,0\n2,b,1\n"}, False),
    ],
)
def test_other_tables_are_encoded_as_they_were(tmp_path: Path, change: dict[str, bytes], texts: bool) -> None:
    task = tweets(tmp_path)
    task = dataclasses.replace(task, files={**task.files, **change})
    team = make_team("dsbench", style="full")
    team.reset(task, 1)
    program = team.act("engineer_0", 0, ())
    assert ("HashingVectorizer" in program) is texts
    assert ("keep = [c for c in keep if" in program) is not texts
