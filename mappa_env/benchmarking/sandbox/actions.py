"""The three timed actions: a print, the usual imports, and a small real task."""

from __future__ import annotations

from dataclasses import dataclass

_PRINT = "print('done')"
_IMPORT = """
import pandas
import sklearn.ensemble
import sklearn.linear_model
print('done')
"""
_WORK = """
import pickle

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

rng = np.random.default_rng(0)
table = pd.DataFrame(rng.normal(size=(300, 8)), columns=list("abcdefgh"))
table["y"] = (table.a + table.b > 0).astype(int)
table.to_csv("table.csv", index=False)
table = pd.read_csv("table.csv")
model = LogisticRegression().fit(table[list("abcdefgh")], table.y)
with open("model.pkl", "wb") as file:
    pickle.dump(model, file)
with open("model.pkl", "rb") as file:
    again = pickle.load(file)
assert again.score(table[list("abcdefgh")], table.y) > 0.9
print('done')
"""


@dataclass(frozen=True)
class Action:
    """``code`` prints ``done`` if and only if all of it succeeded."""

    name: str
    title: str
    code: str


ACTIONS = {
    action.name: action
    for action in (
        Action("print", "print one line", _PRINT),
        Action("import", "import pandas, sklearn.ensemble, sklearn.linear_model", _IMPORT),
        Action("work", "CSV round trip (300 x 8), LogisticRegression, pickle", _WORK),
    )
}
