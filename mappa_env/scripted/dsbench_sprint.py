"""The script of the sprint: the chain of DSBench in one short action per agent, and a faulty team.

An engineer saves features, a modeler a model, an analyst a submission. An agent without a fault does its part
correctly even when an input is missing, so an episode with one fault has one culprit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mappa_env.errors import OptionError
from mappa_env.grading.metrics import METRICS
from mappa_env.scripted.base import Act, FaultPlan
from mappa_env.scripted.dsbench import DSBenchScript, constant, prediction
from mappa_env.types import Task


class SprintScript:
    """See the module. ``leaves_nan`` and ``strings_left`` become ``forgets_x_test`` on tidy tables.

    Raises OptionError for a task of several targets: this script predicts one column.
    """

    faults: Mapping[str, tuple[str, ...]] = {
        **DSBenchScript.faults,
        "modeler": (*DSBenchScript.faults["modeler"], "few_rows", "wrong_input"),
    }

    def act(self, act: Act) -> str:
        """See ``Script.act``."""
        target = act.task.meta["target"]
        if not isinstance(target, str):
            raise OptionError(f"The script dsbench_sprint predicts one target, not {target}; use dsbench.")
        write = {"engineer": _engineer, "modeler": _modeler, "analyst": _analyst}[act.role]
        code = "```python\n" + "\n".join(write(act.task, act.fault, act.rng)) + "\n```"
        return f"{_WORDS[act.role]}\n\n{code}" if act.style == "full" else code


_WORDS = {
    "engineer": "I encode the text columns, fill missing values with training statistics and save the files.",
    "modeler": "I fit a quick model to the engineer's features and save it.",
    "analyst": "I predict the test rows with the saved model and write one line per identifier.",
}


def _engineer(task: Task, fault: str | None, rng: np.random.Generator) -> list[str]:
    columns = task.meta["columns"]
    if (fault == "leaves_nan" and not columns["missing"]) or (fault == "strings_left" and not columns["cat"]):
        fault = "forgets_x_test"
    ids, target = repr(task.meta["id"]), repr(task.meta["target"])
    taken = "'target'" if fault == "wrong_column" else target
    lines = [
        "import pandas as pd",
        "a = pd.read_csv('train.csv')",
        "b = pd.read_csv('test.csv')",
        f"y = a[{taken}]" if fault == "leaks_target" else f"y = a.pop({taken})",
        f"a = a.drop(columns={ids})",
    ]
    if fault == "crash":
        lines.append("a = a.fill_missing()")
    if fault == "strings_left":
        lines.append("b = b[a.columns]")
    else:
        lines += ["a = pd.get_dummies(a)", "b = pd.get_dummies(b).reindex(columns=a.columns, fill_value=0)"]
    if fault != "leaves_nan":
        middle = "median" if rng.integers(2) else "mean"
        lines += [
            f"m = a.{middle}({'numeric_only=True' if fault == 'strings_left' else ''})",
            "a = a.fillna(m)",
            "b = b.fillna(m)",
        ]
    if fault == "wrong_rows":
        lines.append("a = a.head(60)" if rng.integers(2) else "b = b.head(30)")
    saves = ["a.to_pickle('X_train.pkl')", "y.to_pickle('y_train.pkl')", "b.to_pickle('X_test.pkl')"]
    if fault != "prints_saved_without_saving":
        lines += saves[:2] if fault == "forgets_x_test" else saves
    return [*lines, "print('Saved', a.shape, b.shape)"]


_MODELS = {
    "Classifier": (
        ("tree", "DecisionTreeClassifier"),
        ("neighbors", "KNeighborsClassifier"),
        ("naive_bayes", "GaussianNB"),
    ),
    "Regressor": (
        ("tree", "DecisionTreeRegressor"),
        ("neighbors", "KNeighborsRegressor"),
        ("linear_model", "LinearRegression"),
    ),
}
"""Models that fit in milliseconds; none is the best everywhere."""


def fitted_quickly(task: Task, rng: np.random.Generator, *, constant: bool) -> tuple[str, str]:
    """The module and the class of a model of scikit-learn that suits the metric; ``constant``: a dummy."""
    kind = "Regressor" if METRICS[task.metric].takes in ("number", "nonnegative") else "Classifier"
    drawn = _MODELS[kind][int(rng.integers(3))]
    return ("dummy", f"Dummy{kind}") if constant else drawn


def _modeler(task: Task, fault: str | None, rng: np.random.Generator) -> list[str]:
    module, name = fitted_quickly(task, rng, constant=fault == "constant_model")
    features = "X.pkl" if fault == "wrong_input" else "X_train.pkl"
    fit = {"crash": "train(X, y)", "few_rows": "fit(X[:8], y[:8])"}.get(fault or "", "fit(X, y)")
    file = "best_model.pkl" if fault == "wrong_file_name" else "model.pkl"
    lines = [
        "import pandas as pd",
        f"from sklearn.{module} import {name}",
        f"X = pd.read_pickle('{features}')",
        "y = pd.read_pickle('y_train.pkl')",
        f"m = {name}().{fit}",
    ]
    if fault not in ("forgets_model", "prints_saved_without_saving"):
        lines.append(f"pd.to_pickle({'y' if fault == 'pickles_y_train' else 'm'}, '{file}')")
    return [*lines, f"print('{'Fitted' if fault == 'forgets_model' else 'Saved'} {name}')"]


def _analyst(task: Task, fault: str | None, rng: np.random.Generator) -> list[str]:
    ids, target = repr(task.meta["id"]), repr(task.meta["target"])
    column = "'prediction'" if fault == "wrong_header" else target
    lines = ["import pandas as pd", "t = pd.read_csv('test.csv')"]
    if fault == "constant_submission":
        lines += ["y = pd.read_pickle('y_train.pkl')", f"t[{column}] = {constant(task)}"]
    else:
        lines += [
            "X = pd.read_pickle('X_test.pkl')",
            "m = pd.read_pickle('model.pkl')",
            f"t[{column}] = {prediction(task, fault, several=False)}",
        ]
    lines += faulty_rows(fault, ids, target)
    if fault != "prints_saved_without_saving":
        lines.append(f"t[[{ids}, {column}]].to_csv('submission.csv', index=False)")
    return [*lines, "print('Saved', t.shape)"]


def faulty_rows(fault: str | None, ids: str, target: str) -> list[str]:
    """What makes the rows of a submission ``t`` wrong; nothing if ``fault`` is of another kind."""
    return {
        "row_subset": ["t = t.head(30)"],
        "duplicate_ids": [f"t[{ids}] = t[{ids}][0]"],
        "nan_predictions": [f"t[{target}] = t[{target}].where(t.index % 5 > 0)"],
        "wrong_id_column": [f"t[{ids}] = t.index"],
    }.get(fault or "", [])


SCRIPT = SprintScript()

HABIT, SLIP = 0.75, 0.25
FAULTY = FaultPlan(
    rates={"engineer": SLIP, "modeler": SLIP, "analyst": SLIP},
    usual={
        ("accuracy", "engineer"): ("forgets_x_test", HABIT),
        ("accuracy", "analyst"): ("row_subset", HABIT),
        ("f1", "modeler"): ("wrong_file_name", HABIT),
        ("f1", "analyst"): ("prints_saved_without_saving", HABIT),
        ("macro_f1", "engineer"): ("leaks_target", HABIT),
        ("roc_auc", "modeler"): ("few_rows", HABIT),
        ("log_loss", "engineer"): ("wrong_rows", HABIT),
        ("log_loss", "analyst"): ("constant_submission", HABIT),
        ("qwk", "modeler"): ("constant_model", HABIT),
        ("qwk", "analyst"): ("wrong_header", HABIT),
        ("rmse", "engineer"): ("prints_saved_without_saving", HABIT),
        ("mae", "modeler"): ("crash", HABIT),
        ("mae", "analyst"): ("duplicate_ids", HABIT),
        ("rmsle", "modeler"): ("pickles_y_train", HABIT),
        ("smape", "engineer"): ("leaks_target", HABIT),
        ("r2", "analyst"): ("nan_predictions", HABIT),
        ("median_ae", "engineer"): ("wrong_column", HABIT),
        ("median_ae", "modeler"): ("wrong_input", HABIT),
    },
)
"""The faulty team: half of the 36 (metric, role) pairs have a usual fault, so an agent commits one in
about half of the episodes."""
