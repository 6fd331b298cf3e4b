"""The second program that asks a model for predictions: it does nothing but what one does that submits them.

A model must not be able to tell it from the program of the next agent, so it prints nothing and tries
nothing out: what the model is, the first program (``program``) has told.
"""

from __future__ import annotations

from typing import NamedTuple

from mappa_env.probes.program import LOADERS, MODULES, Wording, prepared


class Submission(NamedTuple):
    """What the program does: load the model in file ``model`` and, if there is a ``table``, let it predict.

    ``table``: of ``load_table``. ``given``: a CSV file of the task to read first. ``place``: an expression
    for the model in what the file holds, after a variable; empty: the file holds the model alone. ``method``:
    what to call; ``outputs``: it yields a list, with one table per target. ``matrix``: the model wants
    xgboost's own kind of table. ``beside``: a file that the table goes through first. ``file``: the CSV file
    to write.
    """

    model: str
    table: str = ""
    given: str = ""
    place: str = ""
    method: str = "predict"
    outputs: bool = False
    matrix: bool = False
    beside: str = ""
    file: str = ""


def submitting(submission: Submission, wording: Wording) -> tuple[list[str], list[str]]:
    """The lines that load, and those that predict."""
    x, name, p, t = wording.names
    loads = LOADERS[wording.loader].format(file=submission.model, name=name).splitlines()
    if submission.place:
        loads.append(f"{name} = {submission.place.format(name)}")
    table = [f"{x} = {submission.table}"] * bool(submission.table)
    loads = [*table, *loads] if wording.table_first else [*loads, *table]
    if submission.given:
        loads.insert(0, f"{t} = pd.read_csv({submission.given!r})")
    used = {"joblib": "joblib", "numpy as np": "np."}
    own = (module for module, mark in used.items() if mark in submission.table)
    modules = list(dict.fromkeys(("pandas as pd", MODULES[wording.loader], *own)))
    loads = [*(f"import {module}" for module in modules), *["import xgboost"] * submission.matrix, *loads]
    if not submission.table:
        return loads, []
    loads += prepared(x, submission.beside) if submission.beside else []
    given = f"xgboost.DMatrix({x})" if submission.matrix else x
    value = f"pd.DataFrame([each[:, -1] for each in {p}]).T" if submission.outputs else f"pd.DataFrame({p})"
    return loads, [
        f"{p} = {name}.{submission.method}({given})",
        f"{value}.to_csv({submission.file!r}, index=False)",
    ]
