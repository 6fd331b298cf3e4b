"""The program that asks a model for predictions: what the next agent could have written.

A model's code runs when it is loaded, and sees the program that loads it. So the program is a short script in
the form that agents use, without marks or helpers; it leaves its predictions in files, as agents do.
"""

from __future__ import annotations

import random
from typing import NamedTuple

LISTED = 2000
"""Rows of probabilities that travel."""
OUTPUTS = "output_"
"""The start of the names of columns that belong to the targets of a model of several targets."""
_NAMES = (
    ("X", "X_test", "features"),
    ("model", "clf", "estimator", "m"),
    ("p", "proba", "scores"),
    ("t", "test", "submission"),
)
PICKLE, PANDAS, JOBLIB = range(3)
"""Loaders of models; the prompts name the first."""
_LOADERS = (
    "with open({file!r}, 'rb') as f:\n    {name} = pickle.load(f)",
    "{name} = pd.read_pickle({file!r})",
    "{name} = joblib.load({file!r})",
)
_MODULES = ("pickle", "pandas as pd", "joblib")


class Question(NamedTuple):
    """What a program does: load the model in file ``model`` and, if there is a ``table``, let it predict.

    ``table``: of ``load_table``. ``matrix``: the model wants xgboost's own kind of table. ``shares``: the
    task's metric takes probabilities. ``short``: ask only for what the metric takes. ``given``: a CSV file
    of the task to read first, as those do that write a submission, and ask the model once. ``part``: the
    file holds several things, and the one of them that predicts is the model; several are none.
    ``predictions``, ``probabilities``: the CSV files to write.
    """

    model: str
    table: str = ""
    matrix: bool = False
    shares: bool = False
    short: bool = False
    given: str = ""
    part: bool = False
    predictions: str = ""
    probabilities: str = ""


class Wording(NamedTuple):
    """One way to write the program: the order, the loader of the model, and the names of variables."""

    table_first: bool
    loader: int
    names: tuple[str, ...]


def two_wordings(seed: int) -> tuple[Wording, Wording]:
    """Two wordings that differ in the order, the loader and every name; equal seeds give equal ones.

    The first has the loader that the prompts name.
    """
    rng = random.Random(seed)
    loaders = (PICKLE, rng.choice((PANDAS, JOBLIB)))
    first = rng.random() < 0.5
    names = zip(*(rng.sample(each, 2) for each in _NAMES), strict=True)
    one, other = (
        Wording(order, loader, tuple(chosen))
        for order, loader, chosen in zip((first, not first), loaders, names, strict=True)
    )
    return one, other


def load_table(file: str, form: str, kind: str, *, plain: bool = False) -> str:
    """An expression for the table in ``file``. ``form``: see ``formats.format_of``; ``kind``: its type.

    ``plain``: by pandas, if it is a pickle.
    """
    if form in ("npz", "npy"):
        value = f"np.load({file!r}, allow_pickle=True)"
    elif form in ("parquet", "feather"):
        value = f"pd.read_{form}({file!r})"
    else:
        value = f"pd.read_pickle({file!r})" if plain else f"joblib.load({file!r})"
    return f"np.column_stack(list({value}.values()))" if form == "npz" or kind == "dict" else value


def loading(file: str) -> str:
    """The text of a program that loads a table in one of the ways that a pickle can be loaded."""
    lines = ["import joblib", "import pandas as pd", "try:", f"    pd.read_pickle({file!r})"]
    return "\n".join([*lines, "except Exception:", f"    joblib.load({file!r})"]) + "\n"


def program(question: Question, wording: Wording) -> str:
    """The text of the program."""
    x, name, p, t = wording.names
    loads = [_LOADERS[wording.loader].format(file=question.model, name=name)]
    if question.table:
        loads.insert(0 if wording.table_first else 1, f"{x} = {question.table}")
    modules = ["pickle", "joblib", "numpy as np", "pandas as pd"]
    if question.given:
        loads.insert(0, f"{t} = pd.read_csv({question.given!r})")
        used = {"joblib": "joblib", "numpy as np": "np."}
        own = (module for module, mark in used.items() if mark in question.table)
        modules = list(dict.fromkeys(("pandas as pd", _MODULES[wording.loader], *own)))
    lines = [f"import {module}" for module in modules]
    lines += ["import xgboost"] * question.matrix + loads
    if question.part:
        lines += [
            f"{name} = list({name}.values()) if isinstance({name}, dict) else list({name})",
            f"({name},) = [each for each in {name} if hasattr(each, 'predict')]",
        ]
    lines.append(f"print(type({name}).__name__, hasattr({name}, 'predict'))")
    given = f"xgboost.DMatrix({x})" if question.matrix else x
    if not question.table:
        asks = []
    elif question.given:
        asks = _asks_once(question, name, given, p)
    else:
        asks = _asks_all(question, name, given, p)
    return "\n".join([*lines, *asks]) + "\n"


def _asks_all(question: Question, name: str, given: str, p: str) -> list[str]:
    """First for predictions, then for probabilities."""
    lines = [
        f"values = np.asarray({name}.predict({given}))",
        f"pd.DataFrame(values).to_csv({question.predictions!r}, index=False)",
    ]
    if question.short and question.shares:
        lines = [f"if not hasattr({name}, 'predict_proba'):", *(f"    {line}" for line in lines)]
    if question.shares or not question.short:
        head = "" if question.short else f".head({LISTED})"
        lines += [
            f"if hasattr({name}, 'predict_proba'):",
            f"    {p} = {name}.predict_proba({given})",
            f"    columns = getattr({name}, 'classes_', None)",
            f"    if isinstance({p}, list):",
            f"        columns = [f'{OUTPUTS}{{i}}' for i in range(len({p}))]",
            f"        {p} = np.column_stack([each[:, -1] for each in {p}])",
            f"    {p} = pd.DataFrame({p}, columns=columns if np.ndim(columns) == 1 else None)",
            f"    {p}{head}.to_csv({question.probabilities!r}, index=False)",
        ]
    return lines


def _asks_once(question: Question, name: str, given: str, p: str) -> list[str]:
    """Only for what the metric takes, and with nothing but pandas, as short programs of agents do."""
    predicts = [
        f"{p} = {name}.predict({given})",
        f"pd.DataFrame({p}).to_csv({question.predictions!r}, index=False)",
    ]
    if not question.shares:
        return predicts
    return [
        f"if hasattr({name}, 'predict_proba'):",
        f"    {p} = {name}.predict_proba({given})",
        f"    if isinstance({p}, list):",
        f"        {p} = pd.DataFrame([each[:, -1] for each in {p}]).T",
        f"    pd.DataFrame({p}).to_csv({question.probabilities!r}, index=False)",
        "else:",
        *(f"    {line}" for line in predicts),
    ]
