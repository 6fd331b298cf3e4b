"""The sprint's script: the same chain as DSBench's in one short action each, and a team that errs by habit.

An engineer saves features, a modeler a model, an analyst a submission. Whoever is not at fault does its part
correctly even when an input is missing, so an episode with one fault has one culprit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mappa_env.errors import OptionError
from mappa_env.grading.metrics import METRICS
from mappa_env.scripted.base import FaultPlan, Style
from mappa_env.types import ActionRecord, Task


class SprintScript:
    """See the module. ``leaves_nan`` and ``strings_left`` become ``forgets_x_test`` on tidy tables.

    Raises OptionError for a task of several targets: this script predicts one column.
    """

    faults: Mapping[str, tuple[str, ...]] = {
        "engineer": (
            "forgets_x_test", "wrong_column", "crash", "leaks_target", "prints_saved_without_saving",
            "leaves_nan", "wrong_rows", "strings_left",
        ),
        "modeler": (
            "forgets_model", "prints_saved_without_saving", "crash", "pickles_y_train", "wrong_file_name",
            "constant_model", "few_rows", "wrong_input",
        ),
        "analyst": (
            "wrong_header", "row_subset", "duplicate_ids", "nan_predictions", "crash",
            "prints_saved_without_saving", "constant_submission", "wrong_id_column",
        ),
    }  # fmt: skip

    def act(
        self,
        task: Task,
        agent: str,
        turn: int,
        history: Sequence[ActionRecord],
        *,
        style: Style,
        fault: str | None,
        rng: np.random.Generator,
    ) -> str:
        if not isinstance(task.meta["target"], str):
            raise OptionError(f"the sprint's script predicts one target, not {task.meta['target']}.")
        role = agent.rsplit("_", 1)[0]
        lines = {"engineer": _engineer, "modeler": _modeler, "analyst": _analyst}[role](task, fault, rng)
        code = "```python\n" + "\n".join(lines) + "\n```"
        return code if style == "compact" else f"{_WORDS[role]}\n\n{code}"


_WORDS = {
    "engineer": "I encode the text, fill the gaps with statistics of the training rows and save three files.",
    "modeler": "I fit a quick model on the engineer's features and save it.",
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


def _modeler(task: Task, fault: str | None, rng: np.random.Generator) -> list[str]:
    kind = "Regressor" if METRICS[task.metric].takes in ("number", "nonnegative") else "Classifier"
    module, name = _MODELS[kind][int(rng.integers(3))]
    if fault == "constant_model":
        module, name = "dummy", f"Dummy{kind}"
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
    takes = METRICS[task.metric].takes
    predict = "m.predict_proba(X)[:, 1]" if takes in ("score", "probability") else "m.predict(X)"
    predict += {"log_loss": ".clip(0.02, 0.98)", "rmsle": ".clip(0)"}.get(task.metric, "")
    if fault == "crash":
        predict = predict.replace("m.predict", "m.forecast")
    column = "'prediction'" if fault == "wrong_header" else target
    lines = ["import pandas as pd", "t = pd.read_csv('test.csv')"]
    if fault == "constant_submission":
        value = {"label": "y.mode()[0]", "score": "0.5", "probability": "0.5"}.get(takes, "y.median()")
        lines += ["y = pd.read_pickle('y_train.pkl')", f"t[{column}] = {value}"]
    else:
        lines += [
            "X = pd.read_pickle('X_test.pkl')",
            "m = pd.read_pickle('model.pkl')",
            f"t[{column}] = {predict}",
        ]
    lines += {
        "row_subset": ["t = t.head(30)"],
        "duplicate_ids": [f"t[{ids}] = t[{ids}][0]"],
        "nan_predictions": [f"t[{target}] = t[{target}].where(t.index % 5 > 0)"],
        "wrong_id_column": [f"t[{ids}] = t.index"],
    }.get(fault or "", [])
    if fault != "prints_saved_without_saving":
        lines.append(f"t[[{ids}, {column}]].to_csv('submission.csv', index=False)")
    return [*lines, "print('Saved', t.shape)"]


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
"""The faulty team: half of the 36 (metric, role) pairs have a usual fault, so every agent errs about every
other time."""
