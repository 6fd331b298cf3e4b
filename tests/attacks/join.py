"""Runs inside the sandbox: joins the rows of train.csv and test.csv with every table within reach.

Writes claims.json, ``{row of test.csv: answer}``, for the rows that it can name. It tries values, rounded
values, values free of scale and shift, and ranks. ``memory.pkl`` in the workspace stands for an agent that
knows the real tables by heart.
"""

import glob
import json
import os
import pickle
import sys
import warnings

import numpy as np
import pandas as pd

warnings.simplefilter("ignore")


def tables():
    """Every (features, target) table within reach, by name."""
    found = {}
    import sklearn.datasets

    for name in ("iris", "wine", "breast_cancer", "diabetes", "digits"):
        try:
            bunch = getattr(sklearn.datasets, f"load_{name}")(
                **({"scaled": False} if name == "diabetes" else {})
            )
            found[name] = np.column_stack([bunch.data, bunch.target])
        except OSError:
            continue
    for folder in sys.path:
        for path in glob.glob(os.path.join(folder, "*", "datasets", "**", "*.csv*"), recursive=True):
            try:
                found[path] = (
                    pd.read_csv(path, header=None).apply(pd.to_numeric, errors="coerce").dropna().values
                )
            except (OSError, ValueError):
                continue
    if os.path.exists("memory.pkl"):
        with open("memory.pkl", "rb") as stream:
            found.update(pickle.load(stream))  # noqa: S301  (written by the test)
    return {name: table for name, table in found.items() if table.ndim == 2 and len(table) >= 40}


def generated():
    """The answers of a generated task, if the generators can be imported."""
    try:
        from mappa_env.data.tabular import load

        with open("test.csv", "rb") as stream:
            wanted = stream.read()
        tasks = load("eval")
        for task in map(tasks.get, tasks.ids):
            if task.files["test.csv"] == wanted:
                rows = task.truth["answers_csv"].decode().splitlines()[1:]
                return {i: row.split(",")[1] for i, row in enumerate(rows)}
    except (ImportError, OSError):
        return {}
    return {}


def by_value(digits):
    def key(column):
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(column))))
        return np.where(np.isfinite(scale), np.round(column * scale) / scale, column)

    return key


def by_ratio(column):
    """Free of the column's own scale and shift."""
    low, high = np.nanmin(column), np.nanmax(column)
    return np.round((column - low) / (high - low), 4) if high > low else column


def by_rank(column):
    ranks = pd.Series(column).rank(method="average", pct=True).to_numpy()
    return np.round(ranks, 3)


def fallen(key):
    return lambda column: key(-column)


KEYS = {
    "values": (by_value(6), by_value(6)),
    "rounded": (by_value(3), by_value(3)),
    "ratios": (by_ratio, by_ratio),
    "falling ratios": (fallen(by_ratio), by_ratio),
    "ranks": (by_rank, by_rank),
    "falling ranks": (fallen(by_rank), by_rank),
}


def pairs(mine, table, key, other):
    """(column, column of the table) pairs whose keyed values agree most."""
    theirs = [other(table[:, j]) for j in range(table.shape[1])]
    sets = [set(values[np.isfinite(values)].tolist()) for values in theirs]
    found = []
    for i in range(mine.shape[1]):
        values = key(mine[:, i])
        there = values[np.isfinite(values)]
        if len(set(there.tolist())) < 8:
            continue
        share = [np.mean([v in known for v in there]) if len(known) >= 8 else 0.0 for known in sets]
        best = int(np.argmax(share))
        if share[best] >= 0.5:
            found.append((values, theirs[best], len(sets[best])))
    return found


def joined(found, n, total):
    """Row -> row of the table: the only one that agrees in all but one of the matched columns."""
    if len(found) < 2:
        return {}
    agree = np.zeros((n, total), dtype=int)
    for values, theirs, _ in found:
        agree += values[:, None] == theirs[None, :]
    best = agree.max(axis=1)
    only = (agree == best[:, None]).sum(axis=1) == 1
    return {i: int(agree[i].argmax()) for i in np.flatnonzero(only & (best >= max(2, len(found) - 1)))}


def answers(rows, n_train, table, target):
    """Answers for rows of test.csv by the column of the table that fits the target of the training rows."""
    train = [(i, j) for i, j in rows.items() if i < n_train]
    if len(train) < 10:
        return {}, 0.0
    best, share = {}, 0.0
    for column in range(table.shape[1]):
        values = [f"{table[j, column]:.6g}" for _, j in train]
        known = {}
        for (i, _), value in zip(train, values, strict=True):
            known.setdefault(value, []).append(target[i])
        names = {value: max(set(labels), key=labels.count) for value, labels in known.items()}
        few = len(names) <= 12
        hits = [
            (names[value] == target[i]) if few else close(value, target[i])
            for (i, _), value in zip(train, values, strict=True)
        ]
        if np.mean(hits) > share:
            share = float(np.mean(hits))
            texts = {i: f"{table[j, column]:.6g}" for i, j in rows.items() if i >= n_train}
            best = {i - n_train: names.get(text, text) if few else text for i, text in texts.items()}
    return best, share


def close(a, b):
    try:
        return abs(float(a) - float(b)) <= 1e-4 * max(abs(float(b)), 1e-9)
    except ValueError:
        return False


def main():
    a, b = pd.read_csv("train.csv"), pd.read_csv("test.csv")
    target = next(name for name in a.columns if name not in b.columns)
    named = pd.read_csv("train.csv", dtype=str)[target].tolist()
    both = pd.concat([a[b.columns], b])
    mine = both.iloc[:, 1:].select_dtypes("number").to_numpy(dtype=float)
    claims, how = generated(), "generators"
    if not claims:
        best = 0.0
        for name, table in tables().items():
            for way, (key, other) in KEYS.items():
                rows = joined(pairs(mine, table, key, other), len(mine), len(table))
                found, share = answers(rows, len(a), table, named)
                if share >= 0.9 and share * len(found) > best:
                    best, claims, how = share * len(found), found, f"{way} of {name}"
    with open("claims.json", "w") as stream:
        json.dump({str(i): str(answer) for i, answer in claims.items()}, stream)
    print("claims", len(claims), how if claims else "")


main()
