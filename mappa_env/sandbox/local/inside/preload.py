"""Imports libraries in advance, and makes calls that import lazily, so that no action pays for it.

Nothing here may start a thread or fit a model with OpenMP: fits in forks would then hang.
"""

from __future__ import annotations

import importlib
import io
import multiprocessing.context
import os
import sys
import tempfile


def load(names: list[str], cache: str) -> dict[str, str]:
    """Import the modules that are installed; returns the reason for each skipped one. ``cache``: the folder
    for matplotlib's list of fonts. No action gets to know its name."""
    os.environ["MPLCONFIGDIR"] = cache
    skipped: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:  # the module, or a shared library that it needs, is missing
            skipped[name] = str(error)
    warm_up()
    del os.environ["MPLCONFIGDIR"]
    return skipped


def warm_up() -> None:
    """Make the lazy imports of the loaded libraries."""
    _multiprocessing()
    if "pandas" in sys.modules:
        _pandas()
    if "sklearn.preprocessing" in sys.modules and "pandas" in sys.modules:
        _sklearn()
    if "matplotlib.pyplot" in sys.modules:
        _matplotlib()


def _multiprocessing() -> None:
    """Replace the fork server, which would listen on a socket, with plain forks."""
    contexts = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined]
    contexts["forkserver"] = contexts["fork"]
    multiprocessing.set_start_method("fork", force=True)


def _pandas() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0, None], "b": ["x", "y", "x"], "c": [1, 2, 3]})
    text = frame.to_csv(index=False)
    frame = pd.read_csv(io.StringIO(text))
    frame.describe(include="all")
    frame.groupby("b")["c"].mean()
    frame.merge(frame, on="b").sort_values("c_x")
    pd.get_dummies(frame).fillna(frame["a"].median())
    pd.read_pickle(_pickled(frame))  # noqa: S301  (our own)
    repr(frame)
    frame.isna().sum()
    pd.to_datetime(pd.Series(["2020-01-01"]))


def _pickled(frame: object) -> io.BytesIO:
    import pickle

    return io.BytesIO(pickle.dumps(frame))


def _sklearn() -> None:
    import pandas as pd
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.utils.parallel import _get_threadpool_controller

    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.5, 1.0, 2.5, 3.0]})
    scaler = StandardScaler().fit(frame)
    scaler.transform(frame)
    repr(scaler)
    OneHotEncoder(sparse_output=False).fit_transform(frame[["a"]])
    _get_threadpool_controller()  # otherwise every action builds it
    train_test_split(frame, frame["a"], random_state=0)


def _matplotlib() -> None:
    import matplotlib
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.plot([1, 2], [1, 2])
    figure.savefig(io.BytesIO(), format="png")
    plt.close(figure)
    # They remember our folder, which no action can enter.
    matplotlib.get_cachedir = matplotlib.get_configdir = tempfile.gettempdir
