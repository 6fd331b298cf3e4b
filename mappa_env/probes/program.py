"""The first program that asks a model for predictions: it also tells what the model is.

A model's code runs when it is loaded, and sees the program that loads it. So the program is a short script in
the form that agents use, without marks or helpers; it leaves its predictions in files, as agents do. The
second program (``submitting``) does not even print what the model is.
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
LOADERS = (
    "with open({file!r}, 'rb') as f:\n    {name} = pickle.load(f)",
    "{name} = pd.read_pickle({file!r})",
    "{name} = joblib.load({file!r})",
)
MODULES = ("pickle", "pandas as pd", "joblib")
"""Their modules."""


class Question(NamedTuple):
    """What a program does: load the model in file ``model`` and, if there is a ``table``, let it predict.

    ``table``: of ``load_table``. ``matrix``: the model wants xgboost's own kind of table. ``shares``: the
    task's metric takes probabilities. ``short``: ask only for what the metric takes. ``part``: the file
    holds several things; of several models in it, nobody knows which to ask. ``beside``: a file that the
    table goes through first, see ``prepared``. ``predictions``, ``probabilities``: the CSV files to write.
    """

    model: str
    table: str = ""
    matrix: bool = False
    shares: bool = False
    short: bool = False
    part: bool = False
    beside: str = ""
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


def prepared(table: str, file: str) -> list[str]:
    """Lines that take the variable ``table`` through a ``file``, a transformer or names of columns."""
    if file.endswith(".json"):
        load = f"with open({file!r}) as f:\n    step = json.load(f)"
    else:
        load = f"step = joblib.load({file!r})"
    return [
        "import json, joblib",
        *load.splitlines(),
        f"{table} = step.transform({table}) if hasattr(step, 'transform') else {table}[list(step)]",
    ]


def loading(file: str) -> str:
    """The text of a program that loads a table in one of the ways that a pickle can be loaded."""
    lines = ["import joblib", "import pandas as pd", "try:", f"    pd.read_pickle({file!r})"]
    return "\n".join([*lines, "except Exception:", f"    joblib.load({file!r})"]) + "\n"


def program(question: Question, wording: Wording) -> str:
    """The text of the program."""
    x, name, p, _ = wording.names
    loads = [LOADERS[wording.loader].format(file=question.model, name=name)]
    if question.table:
        loads.insert(0 if wording.table_first else 1, f"{x} = {question.table}")
    lines = [f"import {module}" for module in ("pickle", "joblib", "numpy as np", "pandas as pd")]
    lines += ["import xgboost"] * question.matrix + loads
    if question.part:
        lines += _takes_out(name)
    if question.beside and question.table:
        lines += prepared(x, question.beside)
    offers = (f"hasattr({name}, {method!r})" for method in ("predict", "predict_proba"))
    lines.append(f"print(type({name}).__name__, {', '.join(offers)})")
    given = f"xgboost.DMatrix({x})" if question.matrix else x
    asks = _asks(question, name, given, p) if question.table else []
    return "\n".join([*lines, *asks]) + "\n"


def _takes_out(name: str) -> list[str]:
    """Find the only model among several things, and say whether there are more, also one level deeper.

    One that has several names counts once.
    """
    return [
        "def things(value):",
        "    return list(value.values()) if isinstance(value, dict) else list(value)",
        "def models(value):",
        "    found = enumerate(things(value))",
        "    found = [(i, v) for i, v in found if hasattr(v, 'predict') and not isinstance(v, type)]",
        "    return {id(v): i for i, v in found}",
        f"places = list(models({name}).values())",
        f"deeper = [v for v in things({name}) if isinstance(v, (dict, list, tuple)) and models(v)]",
        "print('places', *(places or [-1] * len(deeper)))",
        f"(place,) = places\n{name} = things({name})[place]",
    ]


def _asks(question: Question, name: str, given: str, p: str) -> list[str]:
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
