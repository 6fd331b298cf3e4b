"""The script of one data scientist who prepares, fits and submits in one short script."""

from __future__ import annotations

from mappa_env.errors import OptionError
from mappa_env.scripted.base import Act, FaultPlan
from mappa_env.scripted.dsbench import constant, prediction
from mappa_env.scripted.dsbench_sprint import faulty_rows, fitted_quickly
from mappa_env.scripted.math_actions import worded
from mappa_env.scripted.roles import Role, RoleScript


def submit(act: Act) -> str:
    """One script from the tables to the submission. Raises OptionError for a task of several targets."""
    task, fault, ids, target = act.task, act.fault, repr(act.task.meta["id"]), act.task.meta["target"]
    if not isinstance(target, str):
        raise OptionError(f"The script dsbench_single predicts one target, not {target}; use dsbench.")
    module, name = fitted_quickly(task, act.rng, constant=fault == "constant_model")
    target = repr(target)
    taken = "'target'" if fault == "wrong_column" else target
    column = "'prediction'" if fault == "wrong_header" else target
    fit = "fit(X[:8], y[:8])" if fault == "few_rows" else "fit(X, y)"
    predicted = constant(task) if fault == "constant_submission" else prediction(task, fault, several=False)
    lines = [
        "import pandas as pd",
        f"from sklearn.{module} import {name}",
        "X = pd.read_csv('train.csv')",
        "t = pd.read_csv('test.csv')",
        f"y = X.pop({taken})",
        f"X = pd.get_dummies(X.drop(columns={ids}))",
        "c, f = X.columns, X.median()",
        "X = X.fillna(f)",
        f"m = {name}().{fit}",
        "X = pd.get_dummies(t).reindex(columns=c, fill_value=0).fillna(f)",
        f"t[{column}] = {predicted}",
    ]
    lines += faulty_rows(fault, ids, target)
    if fault != "prints_saved_without_saving":
        file = "predictions.csv" if fault == "wrong_file_name" else "submission.csv"
        lines.append(f"t[[{ids}, {column}]].to_csv('{file}', index=False)")
    lines.append("print('Saved', t.shape)")
    code = "```python\n" + "\n".join(lines) + "\n```"
    return worded(act.style, code, "I encode and fill both tables alike, fit a quick model and submit.\n")


SCRIPT = RoleScript(
    {
        "scientist": Role(
            (
                "wrong_column",
                "crash",
                "few_rows",
                "constant_model",
                "constant_submission",
                "wrong_header",
                "row_subset",
                "duplicate_ids",
                "nan_predictions",
                "wrong_id_column",
                "wrong_file_name",
                "prints_saved_without_saving",
            ),
            submit,
        )
    }
)

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"scientist": 0.25},
    usual={
        ("accuracy", "scientist"): ("row_subset", HABIT),
        ("f1", "scientist"): ("prints_saved_without_saving", HABIT),
        ("macro_f1", "scientist"): ("wrong_column", HABIT),
        ("qwk", "scientist"): ("wrong_header", HABIT),
        ("log_loss", "scientist"): ("constant_submission", HABIT),
        ("mae", "scientist"): ("duplicate_ids", HABIT),
        ("rmse", "scientist"): ("wrong_file_name", HABIT),
        ("r2", "scientist"): ("nan_predictions", HABIT),
    },
)
"""The faulty team: on eight of the twelve metrics, the agent has a usual fault."""
