"""How much it helps to know by heart the real tables that DSBench's evaluation rows are mixed from.

The worst case: an agent that knows which columns of which table a task has, the exact scale of each, and the
very rows that were mixed. Accuracy for classes, R2 for values, on the rows of test.csv, mean over tasks:

- train: a forest on the training rows alone;
- nearest: the answer of the nearest real row (after standardising the columns);
- table: a forest on the real rows alone;
- both: a forest on the training rows and the real rows together.

python benchmarks/answer_leak.py
"""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mappa_env.data.tabular import load, mixing, sources
from mappa_env.data.tabular.seeding import seed_of
from mappa_env.types import Task

Floats = NDArray[np.float64]
WAYS = ("train", "nearest", "table", "both")


class Known(NamedTuple):
    """A task's rows before they are made untidy, and the real rows on the task's own columns and scales."""

    x: Floats
    y: Floats
    real_x: Floats
    real_y: Floats


def main() -> int:
    tasks = load("eval")
    found = defaultdict(list)
    for task in map(tasks.get, tasks.ids):
        if task.meta["real"]:
            found[task.meta["dataset"], task.meta["task_type"]].append(scores(task))
    print(f"{'source':10}{'tasks':>6}  {'score':10}" + "".join(f"{way:>9}" for way in WAYS) + f"{'gain':>16}")
    for (source, kind), rows in sorted(found.items(), key=lambda item: (item[0][1], item[0][0])):
        print(line(source, "accuracy" if kind == "classification" else "R2", np.array(rows)))
    for kind, name in (("classification", "accuracy"), ("regression", "R2")):
        rows = [row for (_, task_type), each in found.items() if task_type == kind for row in each]
        print(line("all", name, np.array(rows)))
    return 0


def line(source: str, score: str, rows: Floats) -> str:
    """One line. The gain: of the best way with the table over ``train``, and its 95 % interval."""
    mean = rows.mean(axis=0)
    best = 1 + int(mean[1:].argmax())
    gain = rows[:, best] - rows[:, 0]
    half = 1.96 * gain.std(ddof=1) / math.sqrt(len(gain))
    cells = "".join(f"{value:9.3f}" for value in mean)
    return f"{source:10}{len(rows):6}  {score:10}{cells}   {gain.mean():+.3f} ± {half:.3f}"


def scores(task: Task) -> list[float]:
    """The score of each way."""
    known, n = drawn(task), task.meta["rows"][0]
    a, b = slice(0, n), slice(n, sum(task.meta["rows"]))
    several = task.meta["task_type"] == "classification"
    forest: Any = RandomForestClassifier if several else RandomForestRegressor
    nearest: Any = KNeighborsClassifier if several else KNeighborsRegressor
    settings = {"n_estimators": 40, "random_state": 0, "n_jobs": 1}
    x, y = known.x[a], known.y[a]
    fitted = (
        forest(**settings).fit(x, y),
        make_pipeline(StandardScaler(), nearest(1)).fit(known.real_x, known.real_y),
        forest(**settings).fit(known.real_x, known.real_y),
        forest(**settings).fit(np.vstack([x, known.real_x]), np.concatenate([y, known.real_y])),
    )
    score = accuracy_score if several else r2_score
    return [float(score(known.y[b], model.predict(known.x[b]))) for model in fitted]


def drawn(task: Task) -> Known:
    """Draw the task's rows again, and watch which real rows they are made of."""
    match = re.fullmatch(r"(?P<split>\w+)-(?P<source>\w+)-(?P<index>\d+)", task.id)
    assert match is not None
    source = sources.SOURCES[match["source"]]
    rng = np.random.default_rng(seed_of(match["split"], source.name, int(match["index"])))
    mixed, rescaled = mixing.mixed, mixing.rescaled
    seen: dict[str, Any] = {}

    def watch_rows(rows: Floats, groups: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        seen["rows"], seen["groups"] = rows, groups
        seen["mix"], order = mixed(rows, groups, rng)
        return seen["mix"], order

    def watch_columns(x: Floats, rng: np.random.Generator) -> Floats:
        seen["before"], seen["after"] = x, rescaled(x, rng)
        return np.asarray(seen["after"])

    with mock.patch.multiple(sources, mixed=watch_rows, rescaled=watch_columns):
        draw = source.draw(match["split"], task.metric, rng)
    before, mix, rows = seen["before"], seen["mix"], seen["rows"]
    columns = [next(i for i, c in enumerate(mix.T) if np.array_equal(c, each)) for each in before.T]
    scaled = [on_scale(rows[:, i], before[:, j], seen["after"][:, j]) for j, i in enumerate(columns)]
    classes = np.unique(seen["groups"], return_inverse=True)[1].astype(float)
    real_y = classes if task.meta["task_type"] == "classification" else rows[:, -1]
    return Known(draw.x, draw.y, np.column_stack(scaled), real_y)


def on_scale(values: Floats, before: Floats, after: Floats) -> Floats:
    """``values`` on the scale that takes ``before`` to ``after``."""
    order = np.argsort(before)
    return np.interp(values, before[order], after[order])


if __name__ == "__main__":
    sys.exit(main())
