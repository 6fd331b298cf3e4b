"""The DSBench script: an engineer saves features, a modeler a model, an analyst a submission.

Every agent works in one script and ends its segment with a short text. An agent without a fault does its part
correctly even when an input is missing: it tries to load the file and reports the error. An episode with one
fault thus has one culprit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mappa_env.grading.metrics import METRICS
from mappa_env.scripted.base import Act, FaultPlan, Style
from mappa_env.scripted.text_tables import COUNTED, LEVELS, only_texts
from mappa_env.types import ActionRecord, Task

_FILES = ("X_train.pkl", "y_train.pkl", "X_test.pkl")


class DSBenchScript:
    """See the module. ``leaves_nan`` and ``strings_left`` become ``forgets_x_test`` on tidy tables."""

    faults: Mapping[str, tuple[str, ...]] = {
        "engineer": (
            "forgets_x_test",
            "wrong_column",
            "crash",
            "leaks_target",
            "prints_saved_without_saving",
            "leaves_nan",
            "wrong_rows",
            "strings_left",
        ),
        "modeler": (
            "forgets_model",
            "prints_saved_without_saving",
            "crash",
            "pickles_y_train",
            "wrong_file_name",
            "constant_model",
        ),
        "analyst": (
            "wrong_header",
            "row_subset",
            "duplicate_ids",
            "nan_predictions",
            "crash",
            "prints_saved_without_saving",
            "constant_submission",
            "wrong_id_column",
        ),
    }

    def act(self, act: Act) -> str:
        """See ``Script.act``."""
        if act.own:
            return _closing(act.own)
        write = {"engineer": _engineer, "modeler": _modeler, "analyst": _analyst}[act.role]
        code = "```python\n" + "\n".join(write(act.task, act.style, act.fault, act.rng)) + "\n```"
        return f"{_WORDS[act.role]}\n\n{code}" if act.style == "full" else code


_WORDS = {
    "engineer": "I keep the columns that both tables share, encode the text columns, fill missing values "
    "with statistics of the training rows, and save the three files.",
    "modeler": "I fit a tree ensemble, which needs no scaling, to the engineer's features and save it.",
    "analyst": "I predict the test rows with the saved model and write one line per identifier.",
}


def _closing(mine: Sequence[ActionRecord]) -> str:
    """A short text without code, which ends the segment. It states only what really happened."""
    last = mine[-1].tool
    if last is None or last.status != "ok":
        lines = last.stderr.strip().splitlines() if last is not None else []
        return f"stopped: {lines[-1][:60] if lines else 'no output'}"
    written = [file.path for record in mine if record.tool is not None for file in record.tool.files]
    return f"done: {' '.join(written)}" if written else "done"


def _targets(task: Task) -> list[str]:
    target = task.meta["target"]
    return list(target) if isinstance(target, (list, tuple)) else [target]


def _tidy(task: Task, kind: str) -> bool:
    columns = task.meta.get("columns")
    return columns is not None and not columns[kind]


# -- engineer ---------------------------------------------------------------------------------------------


def _engineer(task: Task, style: Style, fault: str | None, rng: np.random.Generator) -> list[str]:
    if (fault == "leaves_nan" and _tidy(task, "missing")) or (fault == "strings_left" and _tidy(task, "cat")):
        fault = "forgets_x_test"
    targets, ids = _targets(task), task.meta["id"]
    texts = style == "full" and fault != "leaks_target" and only_texts(task)
    if texts and fault == "leaves_nan":  # counts have none
        fault = "forgets_x_test"
    single = len(targets) == 1
    target = repr(targets[0]) if single else repr(targets)
    wrong = repr(_mistaken(targets[0], task, rng)) if fault == "wrong_column" else target
    fill = str(rng.choice(("median", "mean")))
    lines = ["import pandas as pd", "a = pd.read_csv('train.csv')", "b = pd.read_csv('test.csv')"]
    if single and fault != "leaks_target":
        lines.append(f"y = a.pop({wrong})")
    else:
        lines.append(f"y = a[{wrong}]")
    if style == "full" and fault != "leaks_target":
        lines.append(f"keep = [c for c in b.columns if c in a.columns and c != {ids!r}]")
        if not texts:
            numeric_or_few = f"pd.api.types.is_numeric_dtype(a[c]) or a[c].nunique() <= {LEVELS}"
            lines.append(f"keep = [c for c in keep if {numeric_or_few}]")
        lines.append("a, b = a[keep], b[keep]")
    else:
        lines += [f"a = a.drop(columns=[{ids!r}])", f"b = b.drop(columns=[{ids!r}])"]
    if fault == "crash":
        lines.append("a = a.fill_missing()")
    if texts and fault != "strings_left":
        lines += COUNTED
    elif fault != "strings_left":
        lines += ["a = pd.get_dummies(a)", "b = pd.get_dummies(b).reindex(columns=a.columns, fill_value=0)"]
    if fault != "leaves_nan" and not texts:
        numeric = "numeric_only=True" if fault == "strings_left" else ""
        lines += [f"m = a.{fill}({numeric})", "a = a.fillna(m)", "b = b.fillna(m)"]
    if fault == "wrong_rows":
        lines.append(str(rng.choice(("a = a.head(60)", "b = b.head(30)"))))
    saves = [f"{name}.to_pickle({file!r})" for name, file in zip("ayb", _FILES, strict=True)]
    if fault == "forgets_x_test":
        saves = saves[:2]
    if fault != "prints_saved_without_saving":
        lines += saves
    if style != "full":
        return [*lines, "print('Saved', a.shape, b.shape)"]
    encoded = f"text columns one-hot encoded, missing values filled with the {fill}"
    encoded = "words of the texts counted by hash, and lengths" if texts else encoded
    return [
        *lines,
        "print('---PREPROCESSING_SUMMARY---')",
        "print('X_train', a.shape, 'X_test', b.shape)",
        f"print('{encoded}')",
        "print('---END---')",
    ]


def _mistaken(target: str, task: Task, rng: np.random.Generator) -> str:
    """A column name that the training table does not have."""
    known = {target, task.meta["id"], *(n for names in task.meta.get("columns", {}).values() for n in names)}
    choices = [name for name in ("target", "label", target.split("_")[0], f"{target}s") if name not in known]
    return str(rng.choice(choices))


# -- modeler ----------------------------------------------------------------------------------------------

_LARGE = 10 * 2**20
"""Bytes of a training table from which a model is fitted on a sample: a forest on all rows takes an hour."""
_SAMPLE = ("X = X.sample(min(len(X), 5000), random_state=0)", "y = y.loc[X.index]")


def _large(task: Task) -> bool:
    content = task.files.get("train.csv")
    return isinstance(content, Path) and content.stat().st_size > _LARGE


_MODELS = (("RandomForest", 40), ("ExtraTrees", 40), ("GradientBoosting", 30))


def _modeler(task: Task, style: Style, fault: str | None, rng: np.random.Generator) -> list[str]:
    stem, trees = _MODELS[int(rng.integers(len(_MODELS)))]
    several = len(_targets(task)) > 1
    if several:  # one regressor for all targets: probabilities and values alike
        stem, trees = "RandomForest", 40
    kind = "Regressor" if several or METRICS[task.metric].takes in ("number", "nonnegative") else "Classifier"
    name, module, args = f"{stem}{kind}", "sklearn.ensemble", f"n_estimators={trees}"
    if fault == "constant_model" or METRICS[task.metric].takes == "text":  # no forest writes texts
        name, module, args = f"Dummy{kind}", "sklearn.dummy", ""
    fit = "train" if fault == "crash" else "fit"
    lines = [
        "import pandas as pd, pickle",
        f"from {module} import {name}",
        "X = pd.read_pickle('X_train.pkl')",
        "y = pd.read_pickle('y_train.pkl')",
        *(_SAMPLE if _large(task) else ()),
        f"m = {name}({args}).{fit}(X, y)",
    ]
    file = "best_model.pkl" if fault == "wrong_file_name" else "model.pkl"
    dumped = "y" if fault == "pickles_y_train" else "m"
    if fault not in ("forgets_model", "prints_saved_without_saving"):
        lines.append(f"pickle.dump({dumped}, open({file!r}, 'wb'))")
    verb = "Fitted" if fault == "forgets_model" else "Saved"
    if style != "full":
        return [*lines, f"print('{verb} {name}')"]
    return [
        *lines,
        "print('---MODEL_SUMMARY---')",
        f"print('{verb} {name}', X.shape)",
        f"print('use {_method(task, several)}')",
        "print('---END---')",
    ]


# -- analyst ----------------------------------------------------------------------------------------------


def _method(task: Task, several: bool) -> str:
    return (
        "predict_proba"
        if METRICS[task.metric].takes in ("score", "probability") and not several
        else "predict"
    )


def prediction(task: Task, fault: str | None, *, several: bool) -> str:
    """The expression that predicts the rows ``X`` with the model ``m``; ``several``: more than one target."""
    method = _method(task, several)
    predict = f"m.{method}(X)" + ("[:, 1]" if method == "predict_proba" else "")
    clipped = {"probability": ".clip(0.02, 0.98)", "nonnegative": ".clip(0)"}
    predict += clipped.get(METRICS[task.metric].takes, "")
    return predict.replace("m.predict", "m.forecast") if fault == "crash" else predict


def constant(task: Task) -> str:
    """The expression of the same valid prediction for all rows, from the training targets ``y``."""
    values = dict.fromkeys(("label", "ranking", "text"), "y.mode()[0]") | dict.fromkeys(
        ("score", "probability"), "0.5"
    )
    return values.get(METRICS[task.metric].takes, "y.median()")


def _analyst(task: Task, style: Style, fault: str | None, rng: np.random.Generator) -> list[str]:
    targets, ids = _targets(task), task.meta["id"]
    several = len(targets) > 1
    lines = ["import pandas as pd, pickle", "t = pd.read_csv('test.csv')"]
    if fault == "constant_submission":
        lines += ["y = pd.read_pickle('y_train.pkl')", f"p = {constant(task)}"]
    else:
        lines += [
            "X = pd.read_pickle('X_test.pkl')",
            "m = pickle.load(open('model.pkl', 'rb'))",
            f"p = {prediction(task, fault, several=several)}",
        ]
    key = "t.index" if fault == "wrong_id_column" else f"t[{ids!r}]"
    header = "prediction" if fault == "wrong_header" else targets[0]
    if several and fault != "constant_submission":
        names = repr([header, *targets[1:]])
        lines += [f"s = pd.DataFrame(p, columns={names})", f"s.insert(0, {ids!r}, {key})"]
    else:
        columns = f"{ids!r}: {key}, " + ", ".join(f"{name!r}: p" for name in [header, *targets[1:]])
        lines.append(f"s = pd.DataFrame({{{columns}}})")
    lines += {
        "row_subset": ["s = s.head(len(s) // 2)"],
        "duplicate_ids": [f"s[{ids!r}] = s[{ids!r}][0]"],
        "nan_predictions": [f"s[{targets[0]!r}] = s[{targets[0]!r}].where(s.index % 5 > 0)"],
    }.get(fault or "", [])
    if fault != "prints_saved_without_saving":
        lines.append("s.to_csv('submission.csv', index=False)")
    if style != "full":
        return [*lines, "print('Saved', s.shape)"]
    return [
        *lines,
        "print('---SUBMISSION_SUMMARY---')",
        "print('rows and columns', s.shape)",
        "print(s.head(3).to_string())",
        "print('---END---')",
    ]


SCRIPT = DSBenchScript()

HABIT = 0.75
FAULTY = FaultPlan(
    rates={"engineer": 0.1, "modeler": 0.1, "analyst": 0.1},
    usual={
        ("accuracy", "engineer"): ("forgets_x_test", HABIT),
        ("accuracy", "analyst"): ("row_subset", HABIT),
        ("f1", "modeler"): ("wrong_file_name", HABIT),
        ("macro_f1", "modeler"): ("forgets_model", HABIT),
        ("qwk", "analyst"): ("wrong_header", HABIT),
        ("log_loss", "analyst"): ("constant_submission", HABIT),
        ("log_loss", "engineer"): ("wrong_rows", HABIT),
        ("rmse", "engineer"): ("prints_saved_without_saving", HABIT),
        ("rmse", "modeler"): ("constant_model", HABIT),
        ("mae", "analyst"): ("duplicate_ids", HABIT),
        ("rmsle", "modeler"): ("pickles_y_train", HABIT),
        ("smape", "engineer"): ("leaks_target", HABIT),
        ("median_ae", "analyst"): ("wrong_id_column", HABIT),
    },
)
"""The faulty team: 13 of the 36 (metric, role) pairs have a usual fault; ``roc_auc`` and ``r2`` have none."""
