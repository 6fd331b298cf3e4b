"""The scripted DSBench team: every action of every pipeline really runs, in forks of one warm interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mappa_env.data import load_tasks
from mappa_env.grading.submission import grade_model
from mappa_env.scripted import dsbench_sprint as sprint
from mappa_env.scripted import make_team
from mappa_env.scripted.dsbench import FAULTY, SCRIPT
from mappa_env.types import Task
from pipelines import AGENTS, Play, play_all


def first(tasks: Any, metric: str, **wanted: bool) -> Task:
    """The first task of a metric that has (or has not) missing values and text columns."""
    for task in map(tasks.get, tasks.ids):
        columns = task.meta["columns"]
        if task.metric == metric and all(bool(columns[kind]) == value for kind, value in wanted.items()):
            return task
    raise AssertionError((metric, wanted))


METRICS = (
    "accuracy",
    "f1",
    "macro_f1",
    "roc_auc",
    "log_loss",
    "qwk",
    "rmse",
    "mae",
    "rmsle",
    "smape",
    "r2",
    "median_ae",
)
FAULTS = [(f"{role}_0", fault) for role, names in SCRIPT.faults.items() for fault in names]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Play]:
    tasks = load_tasks("tabular", "train")
    untidy = first(tasks, "f1", missing=True, cat=True)
    value = first(tasks, "mae", missing=True, cat=True)
    cases = {f"expert-{metric}": (first(tasks, metric), "compact", "", "") for metric in METRICS}
    cases |= {f"full-{task.metric}": (task, "full", "", "") for task in (untidy, value)}
    cases |= {f"{agent}-{fault}": (untidy, "compact", agent, fault) for agent, fault in FAULTS}
    cases |= {f"value-{agent}-{fault}": (value, "full", agent, fault) for agent, fault in FAULTS}
    return play_all(tmp_path_factory.mktemp("plays"), cases)


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"expert-{metric}" for metric in METRICS] + ["full-f1", "full-mae"])
def test_the_expert_is_valid_and_better_than_a_constant(plays: dict[str, Play], name: str) -> None:
    play = plays[name]
    assert play.exits == [0, 0, 0], play.outputs
    assert (play.outcome.status, play.outcome.metrics["beats_constant"]) == ("ok", 1.0), play.outcome
    assert play.outcome.score > 0.2  # of one table; the average over metrics is below
    facts = play.facts
    assert all(facts[key]["loads"] for key in ("X_train", "y_train", "X_test", "model"))
    assert facts["checks"]["target_leaked"] == []
    assert not facts["checks"]["id_kept"]
    assert all(facts["checks"][k] for k in ("columns_match", "rows_match", "test_rows_match"))
    assert facts["X_train"]["numeric"]
    assert facts["X_train"]["nan"] == facts["X_test"]["nan"] == 0
    graded = grade_model(play.task, facts)
    assert graded is not None
    if play.task.metric not in ("rmsle", "log_loss"):  # for these the analyst clips the model's predictions
        assert graded[0] == pytest.approx(play.outcome.metrics[play.task.metric], rel=1e-4)


@pytest.mark.slow
def test_experts_of_all_metrics_reach_the_reference_on_average(plays: dict[str, Play]) -> None:
    assert np.mean([plays[f"expert-{metric}"].outcome.metrics["skill"] for metric in METRICS]) > 0.8


EXPECTED: dict[tuple[str, str], tuple[list[int], str]] = {
    # (agent, fault): exit codes of the three actions, status of the submission
    ("engineer_0", "forgets_x_test"): ([0, 0, 1], "missing"),
    ("engineer_0", "wrong_column"): ([1, 1, 1], "missing"),
    ("engineer_0", "crash"): ([1, 1, 1], "missing"),
    ("engineer_0", "leaks_target"): ([0, 0, 0], "ok"),
    ("engineer_0", "prints_saved_without_saving"): ([0, 1, 1], "missing"),
    ("engineer_0", "strings_left"): ([0, 1, 1], "missing"),
    ("modeler_0", "forgets_model"): ([0, 0, 1], "missing"),
    ("modeler_0", "prints_saved_without_saving"): ([0, 0, 1], "missing"),
    ("modeler_0", "crash"): ([0, 1, 1], "missing"),
    ("modeler_0", "pickles_y_train"): ([0, 0, 1], "missing"),
    ("modeler_0", "wrong_file_name"): ([0, 0, 1], "missing"),
    ("modeler_0", "constant_model"): ([0, 0, 0], "ok"),
    ("analyst_0", "wrong_header"): ([0, 0, 0], "columns"),
    ("analyst_0", "row_subset"): ([0, 0, 0], "rows"),
    ("analyst_0", "duplicate_ids"): ([0, 0, 0], "ids"),
    ("analyst_0", "nan_predictions"): ([0, 0, 0], "values"),
    ("analyst_0", "crash"): ([0, 0, 1], "missing"),
    ("analyst_0", "prints_saved_without_saving"): ([0, 0, 0], "missing"),
    ("analyst_0", "constant_submission"): ([0, 0, 0], "ok"),
    ("analyst_0", "wrong_id_column"): ([0, 0, 0], "ids"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "value-"])
@pytest.mark.parametrize(("agent", "fault"), EXPECTED)
def test_a_fault_shows_where_it_should(plays: dict[str, Play], kind: str, agent: str, fault: str) -> None:
    play = plays[f"{kind}{agent}-{fault}"]
    exits, status = EXPECTED[agent, fault]
    assert play.exits == exits, play.outputs
    # A missing file gets the same status as an empty one here: columns.
    assert play.outcome.status == ("columns" if status == "missing" else status), play.outcome
    assert ("submission.csv" in play.files) == (status != "missing")
    assert play.outcome.score < 0.9


@pytest.mark.slow
def test_downstream_experts_try_and_report_the_missing_file(plays: dict[str, Play]) -> None:
    assert "FileNotFoundError" in plays["engineer_0-forgets_x_test"].outputs[2]
    assert "FileNotFoundError" in plays["modeler_0-wrong_file_name"].outputs[2]
    assert "KeyError" in plays["engineer_0-wrong_column"].outputs[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "value-"])
def test_the_probe_sees_what_the_files_hold(plays: dict[str, Play], kind: str) -> None:
    def facts(name: str) -> dict[str, Any]:
        return plays[kind + name].facts

    assert not facts("engineer_0-forgets_x_test")["X_test"]["exists"]
    assert facts("engineer_0-leaks_target")["checks"]["target_leaked"]
    assert facts("engineer_0-leaves_nan")["X_train"]["nan"] > 0
    assert not facts("engineer_0-strings_left")["X_train"]["numeric"]
    checks = facts("engineer_0-wrong_rows")["checks"]
    assert not (checks["rows_match"] and checks["test_rows_match"])
    assert facts("modeler_0-pickles_y_train")["model"]["has_predict"] is False
    assert facts("modeler_0-constant_model")["model"]["constant"] is True
    assert not facts("modeler_0-wrong_file_name")["model"]["exists"]


@pytest.mark.slow
def test_constant_submissions_are_valid_and_worth_nothing(plays: dict[str, Play]) -> None:
    for name in (
        "analyst_0-constant_submission",
        "modeler_0-constant_model",
        "value-modeler_0-constant_model",
    ):
        outcome = plays[name].outcome
        assert (outcome.success, outcome.score, outcome.metrics["constant"]) == (True, 0.0, 1.0)


def test_habits_name_real_faults_and_cover_a_third_of_the_pairs() -> None:
    for (_, role), (fault, _) in FAULTY.usual.items():
        assert fault in SCRIPT.faults[role]
    assert len(FAULTY.usual) >= len(METRICS) * 3 / 3
    assert {topic for topic, _ in FAULTY.usual} <= set(METRICS)


def test_same_seed_same_words_and_experts_vary() -> None:
    task = load_tasks("tabular", "train").get("train-iris-003")
    team = make_team("dsbench", style="compact")

    def words(seed: int) -> str:
        team.reset(task, seed)
        return team.act("modeler_0", 0, ())

    assert words(3) == words(3)
    assert len({words(seed) for seed in range(20)}) == 3


# -- the sprint -------------------------------------------------------------------------------------------

SPRINT_FAULTS = [(f"{role}_0", fault) for role, names in sprint.SCRIPT.faults.items() for fault in names]
SPRINT: dict[tuple[str, str], tuple[list[int], str]] = EXPECTED | {
    ("engineer_0", "strings_left"): ([0, 1, 1], "missing"),
    ("modeler_0", "few_rows"): ([0, 0, 0], "ok"),
    ("modeler_0", "wrong_input"): ([0, 1, 1], "missing"),
}


@pytest.fixture(scope="module")
def sprints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Play]:
    tasks = load_tasks("tabular", "validation", {"names": "words"})
    untidy = first(tasks, "f1", missing=True, cat=True)
    cases = {f"expert-{m}": (first(tasks, m), "compact", "", "") for m in ("roc_auc", "log_loss", "macro_f1")}
    cases |= {f"expert-{m}": (first(tasks, m), "full", "", "") for m in ("rmse", "rmsle", "smape")}
    cases |= {f"{agent}-{fault}": (untidy, "compact", agent, fault) for agent, fault in SPRINT_FAULTS}
    return play_all(tmp_path_factory.mktemp("sprints"), cases, "dsbench_sprint")


@pytest.mark.slow
def test_the_sprints_experts_are_valid_and_mostly_good(sprints: dict[str, Play]) -> None:
    plays = [play for name, play in sprints.items() if name.startswith("expert-")]
    assert all(play.exits == [0, 0, 0] for play in plays), [play.outputs for play in plays]
    assert {play.outcome.status for play in plays} == {"ok"}
    assert np.mean([play.outcome.score for play in plays]) > 0.4


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "fault"), SPRINT)
def test_a_fault_of_the_sprint_shows_where_it_should(
    sprints: dict[str, Play], agent: str, fault: str
) -> None:
    play = sprints[f"{agent}-{fault}"]
    exits, status = SPRINT[agent, fault]
    assert play.exits == exits, play.outputs
    assert play.outcome.status == ("columns" if status == "missing" else status), play.outcome
    assert ("submission.csv" in play.files) == (status != "missing")


def test_the_sprints_team_errs_every_other_time_and_names_real_faults() -> None:
    assert {len(names) for names in sprint.SCRIPT.faults.values()} == {8}
    assert len(sprint.FAULTY.usual) == len(METRICS) * 3 // 2
    for (topic, role), (fault, _) in sprint.FAULTY.usual.items():
        assert topic in METRICS
        assert fault in sprint.SCRIPT.faults[role]
    team = make_team("dsbench_sprint", "faulty", style="compact")
    tasks = load_tasks("tabular", "train", {"names": "words"})
    erred = {agent: 0 for agent in AGENTS}
    for seed in range(400):
        team.reset(tasks.get(tasks.ids[seed % len(tasks.ids)]), seed)
        for agent in AGENTS:
            erred[agent] += team.planned[agent] is not None
    assert all(0.35 < count / 400 < 0.65 for count in erred.values()), erred


def test_the_sprints_actions_are_short_and_name_what_the_prompt_names() -> None:
    tasks = load_tasks("tabular", "train", {"names": "words"})
    team = make_team("dsbench_sprint", style="compact")
    for task in map(tasks.get, tasks.ids[:12]):
        team.reset(task, 1)
        actions = [team.act(agent, 0, ()) for agent in AGENTS]
        assert max(map(len, actions)) < 520
        assert all(repr(task.meta["target"]) in actions[i] for i in (0, 2))
        assert all(repr(task.meta["id"]) in actions[i] for i in (0, 2))
