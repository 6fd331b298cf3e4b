"""What the probe saw inside the team's files, read as defects with their writers.

The names of the facts are those of ``envs_registry/dsbench/probe.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mappa_env.coach.case import Case

TABLES = ("X_train", "y_train", "X_test")
MODEL = "model.pkl"


class Defect(NamedTuple):
    """What makes ``path`` unusable for whoever comes next; ``writer`` wrote it last."""

    path: str
    writer: str
    reason: str


def facts_of(case: Case) -> Mapping[str, Any] | None:
    """The facts of the latest probe: it ran after the last action that wrote a file others read."""
    if case.evidence.probe is not None:
        return case.evidence.probe
    earlier = (record.probe for record in reversed(case.evidence.history))
    return next((facts for facts in earlier if facts is not None), None)


def defects(case: Case) -> list[Defect]:
    """Every defect of the files that are in the workspace now, tables first; the model's own come last."""
    facts = facts_of(case)
    if facts is None:
        return []
    present = case.evidence.present
    if "probe_failed" in facts:  # what breaks the probe would break the next agent too: the newest file did
        files = [change for change in present.values() if change.agent and change.path.endswith(".pkl")]
        newest = max(files, key=lambda change: change.step, default=None)
        return [Defect(newest.path, newest.agent, "opening it fails")] if newest is not None else []
    found = [*_tables(facts), *_model(facts)]
    return [Defect(path, present[path].agent, reason) for path, reason in found if path in present]


def section(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One part of the facts; empty where the probe has not reported it."""
    value = facts.get(name)
    return value if isinstance(value, Mapping) else {}


def is_foreign(model: Mapping[str, Any]) -> bool:
    """Whether the probe refused to load a class of a package it does not know: no proof of a defect."""
    error = str(model.get("error", ""))
    return error.startswith("foreign:") and "__main__" not in error


def _tables(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    checks = section(facts, "checks")
    for name in TABLES:
        table = section(facts, name)
        if table.get("exists"):
            reason = _table(table, labels=name == "y_train")
            if reason is not None:
                yield f"{name}.pkl", reason
    if checks.get("target_leaked"):
        yield "X_train.pkl", f"it contains the target ({', '.join(map(str, checks['target_leaked'][:3]))})"
    if checks.get("rows_match") is False:
        yield "X_train.pkl", "it has not as many rows as y_train.pkl"
    if checks.get("test_rows_match") is False:
        yield "X_test.pkl", "it has not as many rows as test.csv"
    if checks.get("columns_match") is False:
        yield "X_test.pkl", "its columns are not those of X_train.pkl"


def _table(table: Mapping[str, Any], *, labels: bool) -> str | None:
    if not table.get("loads"):
        return f"it cannot be loaded ({table.get('error', 'no reason given')})"
    if not table.get("table"):
        return f"it holds a {table.get('type', 'thing')}, not a table"
    if not table.get("rows") or not table.get("cols"):
        return "it is empty"
    if table.get("nan"):
        return f"{table['nan']} values are missing in it"
    if table.get("inf"):
        return f"{table['inf']} values in it are infinite"
    if not labels and not table.get("numeric"):
        return f"columns of text are left in it ({', '.join(map(str, table.get('strings', ())[:3]))})"
    if labels and table.get("distinct") == 1:
        return "it holds one and the same value in every row"
    return None


def _model(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    model = section(facts, "model")
    if not model.get("exists") or is_foreign(model):
        return
    if not model.get("loads"):
        yield MODEL, f"it cannot be loaded ({model.get('error', 'no reason given')})"
    elif not model.get("has_predict"):
        yield MODEL, f"it holds a {model.get('type', 'thing')}, which cannot predict"
    elif model.get("predicts") is False:
        yield MODEL, f"it cannot predict X_test.pkl ({model.get('error', 'no reason given')})"
    elif model.get("finite") is False:
        yield MODEL, "its predictions are not finite"
    elif "n_predictions" in model and model["n_predictions"] != section(facts, "X_test").get("rows"):
        yield MODEL, f"it makes {model['n_predictions']} predictions for X_test.pkl"
