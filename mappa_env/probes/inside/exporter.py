"""Prints the tables that files hold as plain numbers and text.

Runs in the sandbox. Tables are read as data alone (``reader``), so no code of an agent runs here. The host
reads the records (``plain``) and computes the facts. Models are asked by another program (``program``).
"""

from __future__ import annotations

import array
import base64
import collections
import decimal
import fractions
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # in the sandbox both run in one namespace, outside of ``__main__``
    from mappa_env.probes.inside.reader import CodeError, Read, plain_reader, read_data

MAX_BYTES = 512 * 2**20
"""The largest file that is opened."""
MAX_CELLS = 2**20
"""Cells of a table that travel: its first rows."""
MAX_TEXTS = 100_000
MAX_COLUMNS = 20_000
MAX_TEXT = 80
MAX_INDEX = 20_000
"""Labels of rows that travel."""
MAX_NAME = 200
MAX_ERROR = 300
_SAMPLE = 1000
_USUAL = ("_item_cache", "_typ", "_metadata", "_name", "_mgr", "_attrs", "_flags", "_is_copy", "_cacher")
"""Attributes of frames and series in files of any version of pandas."""
_EXACT = (decimal.Decimal, fractions.Fraction)
"""Numbers that are objects; ``fit`` makes floats of them."""
_CELLS = (str, int, float, bool, complex, type(None), *_EXACT)
_ROWS = (list, tuple, collections.deque, array.array)
"""Containers of Python that ``numpy.asarray`` reads as rows."""
_KNOWN = ("builtins", "collections", "array", "numpy", "pandas", "scipy")
"""Packages whose types scikit-learn decides about; what becomes of those of others depends on its version."""
_FITTED = 2000
"""Rows that are fitted: the form of a table is the same in all."""


def export(files: Sequence[str], labels: Sequence[str], mark: str) -> None:
    """Read the tables in order and print a record after each; then end the process.

    ``labels``: for each file, which labels it holds: ``classes``, ``numbers``, ``texts``, or none (empty).
    When all are read, each is read once more, as the next agent reads it, with a record of what differs.
    """
    # No module of the workspace comes in where data is read.
    sys.path[:] = [each for each in sys.path if each != os.getcwd()]
    tables = {}
    for number, file in enumerate(files):
        try:
            read = read_data(file)
            tables[number] = _table_of(read)
            found = _described(read, tables[number], labels[number])
        except BaseException as error:  # noqa: BLE001  (whatever a file does when it is opened)
            found = {"error": _short(error), "unusual": isinstance(error, CodeError) and error.unusual}
        _send(f"\n{mark} {json.dumps({'step': number, **found})}\n".encode())
    # Now, because a file may change the classes in this process when a reader without guards loads it.
    for number, table in tables.items():
        said = {"again": number, **_again(files[number], table)}
        _send(f"\n{mark} {json.dumps(said)}\n".encode())
    os._exit(0)  # no thread or exit handler of a library holds us up


def _send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _short(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001  (its own __str__)
        text = type(error).__name__
    return " ".join(text.split())[:MAX_ERROR]


def bounded(text: str, most: int) -> str:
    """``text``, or its start and a digest of it: texts that differ stay different."""
    if len(text) <= most:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[: most - len(digest) - 1]}#{digest}"


def _described(read: Read, table: dict[str, Any] | None, labels: str) -> dict[str, Any]:
    value, plain, other = read.value, read.plain, read.other
    differs = other is not None and _table(other) != table
    found = {"type": type(value).__name__[:MAX_NAME], "table": table, "plain": plain, "stable": not differs}
    return {**found, "unfit": "" if table is None or read.archive else _unfit(value, labels)}


def _again(file: str, table: dict[str, Any] | None) -> dict[str, Any]:
    """Why ``pickle.load``, which is another reader than ours, does not yield ``table``; empty if it does.

    ``marked``: it is a joblib file, which that need not read.
    """
    reader = None
    try:
        with open(file, "rb") as stream:
            reader = plain_reader(stream)
            if reader is None:
                return {"refused": "", "marked": False}
            same = _table(reader.load()) == table or reader.marks
        return {"refused": "" if same else "pickle.load yields something else", "marked": reader.marks}
    except BaseException as error:  # noqa: BLE001  (whatever a file does when it is opened)
        return {"refused": _short(error), "marked": reader is not None and reader.marks}


def _unfit(value: Any, labels: str) -> str:
    """Why scikit-learn fits no model to a table as it is; empty if it does, or if only others could tell."""
    import numpy as np
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if labels == "texts" or type(value).__module__.split(".")[0] not in _KNOWN:
        return ""  # no model of scikit-learn writes texts
    kind = DecisionTreeClassifier if labels == "classes" else DecisionTreeRegressor
    model = kind(max_depth=1, max_features=1, splitter="random", random_state=0)
    try:
        rows = int(value.shape[0]) if _is_sparse(value) else len(value)
        if rows > _FITTED and not isinstance(value, (dict, collections.deque)):
            value, rows = value[:_FITTED], _FITTED
        given = (np.zeros((rows, 1)), value) if labels else (value, np.zeros(rows))
        model.fit(*given)
    except Exception as error:  # noqa: BLE001  (whatever a fit does with such a table)
        return _short(error)
    return ""


def _table_of(read: Read) -> dict[str, Any] | None:
    """The table in a file; one of the arrays of an archive, if it has only one."""
    value = read.value
    return _table(next(iter(value.values())) if read.archive and len(value) == 1 else value)


def _table(value: Any) -> dict[str, Any] | None:
    frame = _frame(value)
    if frame is None:
        return None
    return _listed(frame, int(value.shape[0]) if _is_sparse(value) else len(frame))


def _is_sparse(value: Any) -> bool:
    return type(value).__module__.startswith("scipy.sparse")


def _frame(value: Any) -> Any:
    """A plain pandas frame of anything table-like; None for anything else.

    What the class of an object says counts, not its ``__class__`` and not methods of its own.
    """
    import numpy as np
    import pandas as pd

    kind = type(value)
    package = kind.__module__.split(".")[0]
    for base in (pd.DataFrame, pd.Series):
        if issubclass(kind, base):
            _refuse_replaced(value, base)
            return pd.DataFrame(base.copy(value, deep=False))
    if package == "polars":
        value = value.to_frame() if hasattr(value, "to_frame") else value
        return pd.DataFrame({name: value[name].to_numpy() for name in value.columns})
    if package == "pyarrow" and hasattr(value, "to_pandas"):
        return pd.DataFrame(value.to_pandas())
    if _is_sparse(value):
        return pd.DataFrame(value.tocsr()[: max(1, MAX_CELLS // max(1, value.shape[1]))].toarray())
    if kind is dict and value and len(value) <= MAX_COLUMNS:
        columns = {name: np.asarray(column) for name, column in value.items()}
        if {column.ndim for column in columns.values()} == {1} and len(set(map(len, columns.values()))) == 1:
            return pd.DataFrame(columns)
        return None
    if kind in _ROWS or hasattr(kind, "__array__"):
        values = np.asarray(value)
        if values.ndim not in (1, 2) or (values.dtype == object and not _holds_cells(values)):
            return None
        return pd.DataFrame(values)
    return None


def _holds_cells(values: Any) -> bool:
    return all(isinstance(cell, _CELLS) or hasattr(cell, "dtype") for cell in values.ravel()[:_SAMPLE])


def _refuse_replaced(value: Any, base: Any) -> None:
    """Raises TypeError where the object brings attributes of its own: no file that pandas wrote does."""
    usual = {*_USUAL, *vars(base()), *type(value)._metadata}
    own = [str(name) for name in object.__getattribute__(value, "__dict__")]
    if added := [name for name in own if name not in usual]:
        raise TypeError(f"it replaces or adds {', '.join(added[:5])} of a {base.__name__}")


def _listed(frame: Any, rows: int) -> dict[str, Any]:
    """Size, names, kinds and the first values. ``nan`` and ``inf`` count over all rows."""
    import numpy as np

    cols = frame.shape[1]
    frame = (frame if cols <= MAX_COLUMNS else frame.iloc[:, :MAX_COLUMNS]).infer_objects()
    objects = [at for at, dtype in enumerate(frame.dtypes) if dtype.kind == "O"]
    numbers_of = {at: found for at in objects if (found := _as_numbers(frame.iloc[:, at])) is not None}
    if numbers_of:
        frame = frame.copy()
        for at, column in numbers_of.items():
            frame.isetitem(at, column)
    names = [bounded(str(name), MAX_NAME) for name in frame.columns]
    kinds = {type(name) for name in frame.columns}
    number = [dtype.kind in "biuf" for dtype in frame.dtypes]
    texts = [frame.iloc[:, at] for at, each in enumerate(number) if not each]
    frame = frame.loc[:, number] if texts else frame
    numbers = frame.to_numpy(dtype=float, na_value=np.nan)
    kept = min(len(frame), MAX_CELLS // max(1, len(names)), MAX_TEXTS // max(1, len(texts)))
    return {
        "rows": rows,
        "cols": cols,
        "names": names,
        "mixed": str in kinds and len(kinds) > 1,
        "named": kinds == {str},
        "kinds": "".join("n" if each else "t" for each in number),
        "kept": kept,
        "numbers": _packed(numbers[:kept], "<f8"),
        "texts": [_words(text[:kept]) for text in texts],
        "nan": int(np.isnan(numbers).sum()) + sum(int(each.isna().sum()) for each in texts),
        "inf": int(np.isinf(numbers).sum()),
        "index": _index(frame.index, min(kept, MAX_INDEX)),
    }


def _index(index: Any, most: int) -> str:
    """The first labels of rows, if they are whole numbers, and more than the number of each row."""
    import numpy as np

    if not isinstance(index.dtype, np.dtype) or index.dtype.kind not in "iu":
        return ""
    labels = index.to_numpy()
    return "" if (labels == np.arange(len(labels))).all() else _packed(labels[:most], "<i8")


def _words(column: Any) -> list[str | None]:
    gone = column.isna()
    return [None if no else bounded(str(cell), MAX_TEXT) for cell, no in zip(column, gone, strict=True)]


def _as_numbers(column: Any) -> Any:
    """The numbers of a column of objects or of categories; None if it holds anything else."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        kinds = column.cat.categories
        kind = (kinds.infer_objects() if kinds.dtype == object else kinds).dtype.kind
        if kind not in "biuf":
            return None
        return column.astype(float if kind != "b" or column.isna().any() else bool)
    return column.astype(float) if _is_exact(column) else None


def _is_exact(column: Any) -> bool:
    """Whether it holds numbers, and some of them are objects."""
    kinds = set(map(type, column))
    return bool(kinds.intersection(_EXACT)) and all(
        issubclass(kind, (*_EXACT, int, float)) or kind is type(None) for kind in kinds
    )


def _packed(values: Any, dtype: str) -> str:
    return base64.b64encode(values.astype(dtype, order="C").tobytes()).decode()
