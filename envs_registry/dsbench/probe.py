"""Looks inside the team's files, in a sandboxed scratch copy of the workspace, and prints one line of facts.

Every failure is a fact. Pickles are read with a list of allowed classes and a handful of functions, so that
a file does not run code here; whatever else it does is bounded by the sandbox. README.md lists the facts.
"""

from __future__ import annotations

import os
import sys

# A file json.py or pandas.py of the workspace is not the module that is meant.
sys.path[:] = [p for p in sys.path if p and os.path.realpath(p) != os.path.realpath(os.getcwd())]

import csv  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import pickle  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

Facts = dict[str, Any]

MAX_BYTES = 256 * 2**20
MAX_PREDICTIONS = 5000
MAX_LINE = 28_000
"""Characters of the printed line: the sandbox keeps 32 KiB of the end of an output."""
MAX_NAMES = 40
LEAK_ROWS = 2000

PACKAGES = ("numpy", "pandas", "sklearn", "scipy", "lightgbm", "xgboost")
PLAIN = {
    "builtins": {
        "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object",
        "range", "set", "slice", "str", "tuple",
    },
    "collections": {"OrderedDict", "defaultdict", "deque", "Counter"},
    "copyreg": {"_reconstructor"},
    "_codecs": {"encode"},
    "datetime": {"date", "datetime", "timedelta", "timezone"},
}  # fmt: skip
REBUILDERS = {
    "_reconstruct", "scalar", "_frombuffer", "_new_Index", "_unpickle_block", "__newobj__", "_nat_unpickle",
    "_unpickle_timestamp", "__randomstate_ctor", "__bit_generator_ctor", "__generator_ctor", "newObj",
    "_convert_to_ufunc", "_mareconstruct",
}  # fmt: skip
"""Functions, not classes, that the packages' own objects need to be rebuilt."""


NUMERIC = ("sklearn.metrics._", "sklearn.feature_selection._")
"""Modules whose functions only compute: a scorer or a feature score may be part of a model."""


class ForeignError(Exception):
    """A pickle names something that is neither data nor a class of the packages."""


def allowed(find: Callable[[str, str], Any], module: str, name: str) -> Any:
    if name in PLAIN.get(module, ()):
        return find(module, name)
    if module.split(".")[0] in PACKAGES and "test" not in module and "." not in name:
        found = find(module, name)
        rebuilds = name in REBUILDERS or name.startswith("__pyx_unpickle_")
        computes = type(found).__name__ == "ufunc" or module.startswith(NUMERIC)
        if isinstance(found, type) or rebuilds or computes:
            return found
    raise ForeignError(f"foreign: {module}.{name}"[:160])


class Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return allowed(super().find_class, module, name)


def load(path: str) -> Any:
    if os.path.getsize(path) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    with open(path, "rb") as stream:
        try:
            return Reader(stream).load()
        except ForeignError as error:
            if "joblib.numpy_pickle" not in str(error):
                raise
    return load_joblib(path)


def load_joblib(path: str) -> Any:
    """joblib puts arrays beside the pickle stream; its reader gets the same list of what is allowed."""
    from joblib.numpy_pickle import NumpyUnpickler

    class JoblibReader(NumpyUnpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) == ("joblib.numpy_pickle", "NumpyArrayWrapper"):
                return super().find_class(module, name)
            return allowed(super().find_class, module, name)

    with open(path, "rb") as stream:
        return JoblibReader(path, stream, ensure_native_byte_order=True).load()


def opened(path: str, values: Facts) -> Facts:
    """Whether the file exists and loads; what it holds goes into ``values``."""
    if not os.path.lexists(path):
        return {"exists": False, "loads": False}
    try:
        values[path] = load(path)
    except BaseException as error:  # noqa: BLE001 (also what a hostile file raises)
        return {"exists": True, "loads": False, "error": short(error)}
    return {"exists": True, "loads": True, "type": type(values[path]).__name__}


def short(error: BaseException) -> str:
    text = str(error) if isinstance(error, ForeignError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:200]


def as_frame(value: Any) -> Any:
    """A pandas frame of anything table-like; None for anything else."""
    import numpy as np
    import pandas as pd

    if hasattr(value, "toarray"):
        value = value.toarray()
    if isinstance(value, (list, tuple, np.ndarray)):
        value = np.asarray(value)
        return pd.DataFrame(value) if value.ndim in (1, 2) and value.dtype != object else None
    if isinstance(value, pd.Series):
        return value.to_frame()
    return value if isinstance(value, pd.DataFrame) else None


def table_facts(frame: Any) -> Facts:
    import numpy as np
    import pandas as pd

    numeric = [bool(pd.api.types.is_numeric_dtype(dtype)) for dtype in frame.dtypes]
    numbers = frame.loc[:, numeric].to_numpy(dtype=float, na_value=np.nan)
    names = [str(name)[:60] for name in frame.columns]
    return {
        "rows": int(frame.shape[0]),
        "cols": int(frame.shape[1]),
        "columns": names[:MAX_NAMES],
        "numeric": all(numeric),
        "strings": [name for name, fine in zip(names, numeric, strict=True) if not fine][:8],
        "nan": int(frame.isna().to_numpy().sum()),
        "inf": int(np.isinf(numbers).sum()),
        "distinct": int(frame.iloc[:, 0].astype(str).nunique()) if frame.shape[1] else 0,
    }


def leaked(x: Any, y: Any, targets: list[str]) -> list[str]:
    """Feature columns that hold the target: by name, by one-hot name, or by repeating its values."""
    found = [str(n) for n in x.columns if any(str(n) == t or str(n).startswith(f"{t}_") for t in targets)]
    if y is not None and len(y) == len(x) >= 20:
        truth = y.iloc[:LEAK_ROWS, 0].astype(str).to_numpy()
        for at, name in enumerate(x.columns):
            column = x.iloc[:LEAK_ROWS, at].astype(str).to_numpy()
            if len(set(truth)) > 1 and bool((column == truth).all()):
                found.append(str(name))
    return sorted(set(found))[:8]


def model_facts(model: Any, x_test: Any) -> Facts:
    import numpy as np

    features = getattr(model, "n_features_in_", None)
    facts: Facts = {
        "has_predict": callable(getattr(model, "predict", None)),
        "n_features": int(features) if isinstance(features, (int, np.integer)) else None,
    }
    if not facts["has_predict"] or x_test is None:
        return facts
    try:
        found = np.asarray(model.predict(x_test))
        flat = found.reshape(len(found), -1)
    except BaseException as error:  # noqa: BLE001
        return {**facts, "predicts": False, "error": short(error)}
    number = flat.dtype.kind in "biuf"
    facts.update(
        predicts=True,
        n_predictions=len(flat),
        finite=bool(np.isfinite(flat.astype(float)).all()) if number else True,
        constant=bool((flat == flat[:1]).all()),
        predictions=listed(flat),
    )
    if hasattr(model, "predict_proba"):
        try:
            share = np.asarray(model.predict_proba(x_test), dtype=float)
        except BaseException as error:  # noqa: BLE001
            return {**facts, "error": short(error)}
        if share.ndim == 2 and share.shape[1] == 2:
            facts.update(probabilities=listed(share[:, 1:]), constant=bool((share == share[:1]).all()))
    return facts


def listed(flat: Any) -> list[Any]:
    rows = [[plain(cell) for cell in row] for row in flat[:MAX_PREDICTIONS].tolist()]
    return [row[0] if len(row) == 1 else row for row in rows]


def plain(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.6g}") if math.isfinite(cell) else str(cell)
    return cell if isinstance(cell, (bool, int)) else str(cell)[:80]


def header_and_rows(path: str) -> tuple[list[str], int | None]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            rows = csv.reader(stream)
            return next(rows), sum(1 for row in rows if row)
    except (OSError, ValueError, StopIteration, csv.Error):
        return [], None


def compared(frames: Facts, model: Facts) -> Facts:
    """How the files fit together; a key is there only where both sides are."""
    train, train_rows = header_and_rows("train.csv")
    test, test_rows = header_and_rows("test.csv")
    x, y, z = (frames.get(name) for name in ("X_train", "y_train", "X_test"))
    checks: Facts = {"train_rows": train_rows, "test_rows": test_rows}
    if x is not None and z is not None:
        checks["columns_match"] = list(map(str, x.columns)) == list(map(str, z.columns))
    if x is not None and y is not None:
        checks["rows_match"] = len(x) == len(y)
    if z is not None and test_rows is not None:
        checks["test_rows_match"] = len(z) == test_rows
    if z is not None and model.get("n_features") is not None:
        checks["features_match"] = model["n_features"] == z.shape[1]
    if x is not None:
        checks["target_leaked"] = leaked(x, y, [name for name in train if name not in test])
        checks["id_kept"] = bool(test) and test[0] in map(str, x.columns)
    return checks


def look() -> Facts:
    values: Facts = {}
    frames: Facts = {}
    facts: Facts = {}
    for name in ("X_train", "y_train", "X_test"):
        facts[name] = opened(f"{name}.pkl", values)
        if facts[name]["loads"]:
            frames[name] = as_frame(values[f"{name}.pkl"])
            facts[name]["table"] = frames[name] is not None
            if frames[name] is not None:
                facts[name].update(table_facts(frames[name]))
    facts["model"] = opened("model.pkl", values)
    if facts["model"]["loads"]:
        facts["model"].update(model_facts(values["model.pkl"], values.get("X_test.pkl")))
    facts["checks"] = compared(frames, facts["model"])
    return facts


def line_of(facts: Facts) -> str:
    """One line that surely fits: long lists of predictions are cut, which ``n_predictions`` tells."""
    line = json.dumps(facts, default=str, allow_nan=False)
    model = facts.get("model") or {}
    while len(line) > MAX_LINE and model.get("predictions"):
        kept = len(model["predictions"]) // 2
        model.update({key: model[key][:kept] for key in ("predictions", "probabilities") if key in model})
        line = json.dumps(facts, default=str, allow_nan=False)
    return line


def main() -> None:
    warnings.simplefilter("ignore")
    out = os.dup(1)
    sys.stdout = sys.stderr = io.StringIO()  # what loading prints is not evidence
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        line = line_of(look())
    except BaseException as error:  # noqa: BLE001
        line = json.dumps({"probe_failed": short(error)})
    with os.fdopen(out, "w") as stream:
        stream.write(f"\nPROBE {line}\n")
    os._exit(0)  # nothing that a loaded object registered gets to run


if __name__ == "__main__":
    main()
