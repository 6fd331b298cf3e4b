"""The scientific libraries work repeatedly inside actions of ``local``, in a zygote that has served many.

The risk in a fork is threads: a pool of OpenMP or OpenBLAS threads that the parent started is missing in the
child, which then waits for it forever. So every library computes repeatedly, in several threads if it can.

Interpreter: ``MAPPA_SCIENCE_PYTHON``, else that of ``make science``, else this one.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mappa_env.benchmarking.sandbox.actions import ACTIONS, Action
from mappa_env.sandbox import Limits, Sandbox, make_sandbox
from mappa_env.workspace.workspace import Workspace
from paths import ROOT

MADE = ROOT / ".venv-science" / "bin" / "python"
PYTHON = os.environ.get("MAPPA_SCIENCE_PYTHON") or (str(MADE) if MADE.exists() else sys.executable)
LIMITS = Limits(wall_s=300, cpu_s=300, memory_mb=4096)
SERVED, TIMES = 200, 3

DATA = """
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(2000, 10))
y = (x[:, 0] + x[:, 1] > 0).astype(int)
"""
CODES = {
    "HistGradientBoosting": (
        "sklearn",
        "from sklearn.ensemble import HistGradientBoostingClassifier as Model\n"
        "assert Model(max_iter=20).fit(x, y).score(x, y) > 0.9",
    ),
    "KMeans": (
        "sklearn",
        "from sklearn.cluster import KMeans\nassert len(set(KMeans(4, n_init=2).fit_predict(x))) == 4",
    ),
    "RandomForest": (
        "sklearn",
        "from sklearn.ensemble import RandomForestClassifier as Model\n"
        "assert Model(20, n_jobs=2).fit(x, y).score(x, y) > 0.9",
    ),
    "cross_val_score": (
        "sklearn",
        "from sklearn.linear_model import LogisticRegression as Model\n"
        "from sklearn.model_selection import cross_val_score\n"
        "assert cross_val_score(Model(), x, y, n_jobs=2).mean() > 0.9",
    ),
    "BLAS in two threads": (
        "threadpoolctl",
        "import threadpoolctl\nwith threadpoolctl.threadpool_limits(2):\n"
        "    assert np.allclose(np.linalg.inv(x.T @ x) @ (x.T @ x), np.eye(10))",
    ),
    "sympy": ("sympy", "import sympy\nt = sympy.Symbol('t')\nassert sympy.integrate(2 * t, t) == t**2"),
    "LightGBM": (
        "lightgbm",
        "import lightgbm\nmodel = lightgbm.LGBMClassifier(n_estimators=20, n_jobs=2, verbose=-1)\n"
        "assert (model.fit(x, y).predict(x) == y).mean() > 0.9",
    ),
    "XGBoost": (
        "xgboost",
        "import xgboost\nmodel = xgboost.XGBClassifier(n_estimators=20, n_jobs=2)\n"
        "assert (model.fit(x, y).predict(x) == y).mean() > 0.9",
    ),
    "parquet": (
        "pyarrow",
        "import pandas as pd\nframe = pd.DataFrame(x).rename(columns=str)\nframe.to_parquet('x.parquet')\n"
        "assert pd.read_parquet('x.parquet').equals(frame)",
    ),
    "a pool of processes": (
        "multiprocessing",
        "import multiprocessing\nwith multiprocessing.Pool(2) as pool:\n"
        "    assert pool.map(abs, range(-3, 0)) == [3, 2, 1]",
    ),
    "an executor of processes": (
        "concurrent",
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as pool:\n"
        "    assert list(pool.map(abs, range(-3, 0))) == [3, 2, 1]",
    ),
    "a pool of threads": (
        "multiprocessing",
        "from multiprocessing.pool import ThreadPool\nwith ThreadPool(2) as pool:\n"
        "    assert pool.map(abs, range(-3, 0)) == [3, 2, 1]",
    ),
    "matplotlib": (
        "matplotlib",
        "import os\nimport matplotlib.pyplot as plt\n"
        "plt.hist(x[:, 0])\nplt.title('ä')\nplt.savefig('x.png')\n"
        "assert os.path.getsize('x.png') > 1000",
    ),
}
FULL_ONLY = {
    "BLAS in two threads": "reads /proc/self/maps",
    "a pool of processes": "makes a semaphore in /dev/shm",
    "an executor of processes": "makes a semaphore in /dev/shm",
    "a pool of threads": "makes a semaphore in /dev/shm",
}
"""Expected failures at ``landlock``, with the reason."""


@functools.cache
def present(module: str) -> bool:
    ask = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([PYTHON, "-c", ask], check=False).returncode == 0


@pytest.fixture(scope="module")
def used() -> Iterator[tuple[Sandbox, Workspace]]:
    """A sandbox whose zygote has served a few hundred actions."""
    sandbox = make_sandbox({"name": "local", "python": PYTHON})
    with sandbox.open_workspace() as workspace:
        for number in range(SERVED):
            result = sandbox.run(workspace, f"print({number})", LIMITS, seed=number)
            assert (result.status, result.stdout) == ("ok", f"{number}\n"), result
        yield sandbox, workspace


@pytest.mark.parametrize("name", CODES)
def test_it_works_again_and_again(name: str, used: tuple[Sandbox, Workspace]) -> None:
    module, code = CODES[name]
    if not present(module):
        pytest.skip(f"{PYTHON} has no {module}")
    sandbox, workspace = used
    for turn in range(TIMES):
        result = sandbox.run(workspace, f"{DATA}{code}\nprint('done')", LIMITS, seed=turn)
        if result.isolation == "landlock" and name in FULL_ONLY and "PermissionError" in result.stderr:
            pytest.xfail(FULL_ONLY[name])
        assert (result.status, result.stdout) == ("ok", "done\n"), result


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.name)
def test_the_actions_of_the_benchmark(action: Action, used: tuple[Sandbox, Workspace]) -> None:
    sandbox, workspace = used
    result = sandbox.run(workspace, action.code, LIMITS)
    assert (result.status, result.stdout) == ("ok", "done\n"), result
