"""Prints the tables that files hold as plain numbers and text.

Runs in the sandbox. Tables are read as data alone (``reader``), so no code of an agent runs here. The host
reads the records (``plain``) and computes the facts. Models are asked by another program (``program``).
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # in the sandbox both run in one namespace, outside of ``__main__``
    from mappa_env.probes.inside.reader import CodeError, read_data

MAX_BYTES = 512 * 2**20
"""The largest file that is opened."""
MAX_CELLS = 2**20
"""Cells of a table that travel: its first rows."""
MAX_TEXTS = 100_000
MAX_COLUMNS = 20_000
MAX_TEXT = 80
MAX_NAME = 200
MAX_ERROR = 300
_SAMPLE = 1000
_USUAL = ("_item_cache", "_typ", "_metadata", "_name", "_mgr", "_attrs", "_flags", "_is_copy", "_cacher")
"""Attributes of frames and series in files of any version of pandas."""
_CELLS = (str, int, float, bool, complex, type(None))


def export(files: Sequence[str], mark: str) -> None:
    """Read the tables in order and print a record after each; then end the process."""
    # No module of the workspace comes in where data is read.
    sys.path[:] = [each for each in sys.path if each != os.getcwd()]
    for number, file in enumerate(files):
        try:
            found = _read_table(file)
        except BaseException as error:  # noqa: BLE001  (whatever a file does when it is opened)
            found = {"error": _short(error), "unusual": isinstance(error, CodeError) and error.unusual}
        _send(f"\n{mark} {json.dumps({'step': number, **found})}\n".encode())
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


def _read_table(file: str) -> dict[str, Any]:
    value, plain, other = read_data(file)
    table = _table_of(value)
    differs = other is not None and _table_of(other) != table
    return {"type": type(value).__name__[:MAX_NAME], "table": table, "plain": plain, "stable": not differs}


def _table_of(value: Any) -> dict[str, Any] | None:
    frame = _frame(value)
    if frame is None:
        return None
    return _table(frame, int(value.shape[0]) if _is_sparse(value) else len(frame))


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
        if len(value) == 1:
            return _frame(next(iter(value.values())))
        columns = {name: np.asarray(column) for name, column in value.items()}
        if {column.ndim for column in columns.values()} == {1} and len(set(map(len, columns.values()))) == 1:
            return pd.DataFrame(columns)
        return None
    if kind in (list, tuple) or hasattr(kind, "__array__"):
        array = np.asarray(value)
        if array.ndim not in (1, 2) or (array.dtype == object and not _holds_cells(array)):
            return None
        return pd.DataFrame(array)
    return None


def _holds_cells(array: Any) -> bool:
    return all(isinstance(cell, _CELLS) or hasattr(cell, "dtype") for cell in array.ravel()[:_SAMPLE])


def _refuse_replaced(value: Any, base: Any) -> None:
    """Raises TypeError where the object brings attributes of its own: no file that pandas wrote does."""
    usual = {*_USUAL, *vars(base()), *type(value)._metadata}
    own = [str(name) for name in object.__getattribute__(value, "__dict__")]
    if added := [name for name in own if name not in usual]:
        raise TypeError(f"it replaces or adds {', '.join(added[:5])} of a {base.__name__}")


def _table(frame: Any, rows: int) -> dict[str, Any]:
    """Size, names, kinds and the first values. ``nan`` and ``inf`` count over all rows."""
    import numpy as np

    cols = frame.shape[1]
    frame = (frame if cols <= MAX_COLUMNS else frame.iloc[:, :MAX_COLUMNS]).infer_objects()
    names = [str(name)[:MAX_NAME] for name in frame.columns]
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
        "kinds": "".join("n" if each else "t" for each in number),
        "kept": kept,
        "numbers": _packed(numbers[:kept], "<f8"),
        "texts": [
            [None if gone else str(cell)[:MAX_TEXT] for cell, gone in zip(each, each.isna(), strict=True)]
            for each in (text[:kept] for text in texts)
        ],
        "nan": int(np.isnan(numbers).sum()) + sum(int(each.isna().sum()) for each in texts),
        "inf": int(np.isinf(numbers).sum()),
    }


def _packed(array: Any, dtype: str) -> str:
    return base64.b64encode(array.astype(dtype, order="C").tobytes()).decode()
