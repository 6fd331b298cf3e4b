"""Tables whose features are texts alone, as in competitions on natural language."""

from __future__ import annotations

import io

from mappa_env.types import Task

LEVELS = 20
"""Text columns with more levels are not encoded one-hot."""
_ROWS = 100_000
"""Training rows from which the levels are counted."""

COUNTED = (
    "from sklearn.feature_extraction.text import HashingVectorizer",
    "v = HashingVectorizer(n_features=200, alternate_sign=False, norm=None, dtype='float32')",
    "def counted(t):",
    "    t = t.fillna('').astype(str).agg(' '.join, axis=1)",
    "    words = pd.DataFrame(v.transform(t).toarray(), t.index).add_prefix('word')",
    "    return words.assign(length=t.str.len())",
    "a, b = counted(a), counted(b)",
)
"""Turns the texts of ``a`` and ``b`` into counts of words, which share 200 columns by hash, and lengths."""


def only_texts(task: Task) -> bool:
    """Whether the tables share texts alone, each with more than ``LEVELS`` levels."""
    columns = task.meta.get("columns", {"num": [], "cat": []})
    train = task.files.get("train.csv")
    if columns["num"] or not columns["cat"] or train is None:
        return False
    import pandas as pd

    try:
        rows = pd.read_csv(io.BytesIO(train) if isinstance(train, bytes) else train, nrows=_ROWS)
        read = [rows[name] for name in columns["cat"]]
    except (OSError, ValueError, KeyError):  # the program fails over it, too, and says why
        return False
    return not any(pd.api.types.is_numeric_dtype(each) or each.nunique() <= LEVELS for each in read)
