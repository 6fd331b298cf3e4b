"""Forests that several threads fit at once leave the process's warnings alone."""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mappa_env.probes.baseline import baseline
from mappa_env.probes.plain import Table

ROWS = 60


def table(names: str, numbers: np.ndarray) -> Table:
    return Table(ROWS, len(names), ROWS, tuple(names), (True,) * len(names), numbers, (), 0, 0)


def test_forests_in_many_threads_keep_the_warning_filters() -> None:
    rng = np.random.default_rng(0)
    x = table("abc", rng.normal(size=(ROWS, 3)))
    y = table("y", (x.numbers[:, :1] > 0).astype(float))
    filters = list(warnings.filters)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads meet where they would rarely meet
    try:
        with warnings.catch_warnings(record=True) as seen, ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: baseline(x, y, x), range(40)))
    finally:
        sys.setswitchinterval(interval)
    assert not [each for each in seen if "Parallel" in str(each.message)]
    assert list(warnings.filters) == filters
    assert all(each is not None and (each[0] == found[0][0]).all() for each in found if found[0])
