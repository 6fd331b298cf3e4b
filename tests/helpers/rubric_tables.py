"""What a probe sees of a small table task, and turns of its agents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mappa_env.types import Outcome, ToolResult, Verdict
from rubric_play import TABLE, Play, code, ran

X = {
    "exists": True,
    "loads": True,
    "table": True,
    "rows": 150,
    "cols": 5,
    "numeric": True,
    "nan": 0,
    "inf": 0,
}
SOUND: dict[str, Any] = {
    "X_train": X,
    "y_train": {**X, "cols": 1, "numeric": False, "distinct": 2},
    "X_test": {**X, "rows": 60},
    "model": {"exists": False, "loads": False},
    "checks": {
        "columns_match": True,
        "rows_match": True,
        "test_rows_match": True,
        "target_leaked": [],
        "train_rows": 150,
        "test_rows": 60,
        "id_kept": False,
    },
}
TABLES = ("X_train.pkl", "y_train.pkl", "X_test.pkl")
LOADS = {
    "engineer_0": "pd.read_csv('train.csv')",
    "modeler_0": "pd.read_pickle('X_train.pkl'); pd.read_pickle('y_train.pkl')",
    "analyst_0": "pd.read_pickle('X_test.pkl'); pickle.load(open('model.pkl', 'rb'))",
}


def facts(**changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {**SOUND[name], **changes.get(name, {})} for name in SOUND}


def with_model(**changes: Any) -> dict[str, Any]:
    n = len(changes.get("predictions", range(60)))
    seen = {
        "exists": True,
        "loads": True,
        "has_predict": True,
        "predicts": True,
        "n_predictions": n,
        "finite": True,
        "constant": False,
    }
    return facts(model={**seen, **changes}, X_test={"rows": n})


def engineer(play: Play, probe: Mapping[str, Any] | None = None, files: Iterable[str] = TABLES) -> Verdict:
    tool = ran("Saved (150, 5) (60, 5)", files=files)
    return play.act("engineer_0", code(LOADS["engineer_0"]), tool, probe=probe or facts())


def no_file(name: str) -> ToolResult:
    return ran(
        "", "error", f"FileNotFoundError: [Errno 2] No such file or directory: '{name}'", opened=(name,)
    )


def predictions(share_right: float) -> list[str]:
    """The first share of the test labels right, the others wrong: (rows,) in the order of test.csv."""
    rows = TABLE.truth["answers_csv"].decode().strip().split("\n")[1:]
    labels = [row.split(",")[1] for row in rows]
    known = sorted(set(labels))
    cut = int(share_right * len(labels))
    return labels[:cut] + [next(k for k in known if k != label) for label in labels[cut:]]


def modeler(play: Play, probe: Mapping[str, Any]) -> Verdict:
    return play.act("modeler_0", code(LOADS["modeler_0"]), ran("", files=["model.pkl"]), probe=probe)


def team_up_to_analyst(model: Mapping[str, Any]) -> Play:
    play = Play("dsbench", TABLE)
    engineer(play)
    modeler(play, model)
    return play


def submit(play: Play, provisional: Outcome, source: str = LOADS["analyst_0"]) -> Verdict:
    opened = tuple(re.findall(r"\w+\.(?:pkl|csv)", source))
    tool = ran("", files=["submission.csv"], opened=opened)
    return play.act("analyst_0", code(source), tool, provisional=provisional)


def graded(skill: float, status: str = "ok", constant: float = 0.0) -> Outcome:
    return Outcome(min(skill, 1.0), status == "ok", status, status, {"skill": skill, "constant": constant})
