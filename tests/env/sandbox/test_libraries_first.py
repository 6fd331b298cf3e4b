"""Files of the workspace stand in for no library; modules of one's own can be imported and pickled."""

from __future__ import annotations

import importlib.util

import pytest

from mappa_env.sandbox import Limits, Sandbox, make_sandbox

LIMITS = Limits(wall_s=120, disk_mb=64)
OPTIONAL = ("bottleneck", "numexpr", "pyarrow", "gmpy2", "psutil", "lz4", "numba", "org", "fastparquet", "py")
"""Packages that pandas, sympy, joblib and the standard library use if they are there."""
PLANT = f"""
import importlib.util, os
for name in {OPTIONAL}:
    if importlib.util.find_spec(name) is None:
        os.mkdir(name)
        open(name + '/__init__.py', 'w').write("print('GOT', __name__)")
for name in ('json', 'numpy', 'sklearn', 'sitecustomize', 'usercustomize', 'conftest', 'pickle', 'time'):
    open(name + '.py', 'w').write("print('GOT', __name__)")
open('x.pth', 'w').write("print('GOT pth')")
"""
USE = """
import json, numpy, pandas, pickle, sklearn.linear_model, joblib, sympy, time
from sklearn.ensemble import RandomForestClassifier
model = RandomForestClassifier(2, n_jobs=2).fit([[0], [1]], [0, 1])
joblib.dump(model, 'model.joblib', compress=3)
frame = pandas.DataFrame({'a': [1.0, 2.0]})
for save in (frame.to_parquet, frame.to_feather, frame.to_excel):
    try:
        save('frame.xlsx')
    except ImportError:
        pass
frame.eval('a + a')
print(joblib.load('model.joblib').predict([[1]]), sympy.sqrt(4), frame.a.sum())
"""
HELPER = """
import os, pickle
open('helper.py', 'w').write('class Model:\\n    value = 42\\n')
os.mkdir('tools')
open('tools/__init__.py', 'w').write('from tools.inner import VALUE\\nimport helper\\n')
open('tools/inner.py', 'w').write('VALUE = 6 * 7\\n')
import helper
pickle.dump(helper.Model(), open('model.pkl', 'wb'))
import joblib
joblib.dump({'model': helper.Model()}, 'model.joblib')
"""
READERS = {
    "import": "import helper\nmodel = helper.Model()",
    "by_name": "import importlib\nmodel = importlib.import_module('helper').Model()",
    "package": "import tools\nmodel = tools.helper.Model()\nassert tools.VALUE == 42",
    "pickle": "import pickle\nmodel = pickle.load(open('model.pkl', 'rb'))",
    "python_pickle": "import pickle\nmodel = pickle._Unpickler(open('model.pkl', 'rb')).load()",
    "pandas": "import pandas\nmodel = pandas.read_pickle('model.pkl')",
    "joblib": "import joblib\nmodel = joblib.load('model.joblib')['model']",
    "runpy": "import runpy\nmodel = runpy.run_module('helper')['Model']",
    "child": "import multiprocessing, helper\n"
    "model = multiprocessing.get_context('fork').Pool(1).apply(helper.Model)",
    "own_order": "import os, sys\nsys.path.insert(0, os.getcwd())\nimport helper\nmodel = helper.Model",
}


@pytest.fixture(params=["local", "process"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return make_sandbox(request.param)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_library_takes_a_file_of_the_workspace_for_a_package(sandbox: Sandbox) -> None:
    with sandbox.open_workspace() as workspace:
        honest = sandbox.run(workspace, USE, LIMITS)
        assert sandbox.run(workspace, PLANT, LIMITS).status == "ok"
        result = sandbox.run(workspace, USE, LIMITS)
    assert (honest.status, honest.stdout) == ("ok", "[1] 2 3.0\n"), honest
    assert (result.status, result.stdout) == (honest.status, honest.stdout), result


ASK = """
import importlib.metadata, numpy, os
inside = os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), 'asking.py')
exec(compile('''
import importlib.util
found = [importlib.util.find_spec('planted')]
for ask in (importlib.import_module, __import__):
    try:
        found.append(ask('planted'))
    except ModuleNotFoundError:
        found.append(None)
print(found)
''', inside, 'exec'), {'__name__': 'asking'})
importlib.invalidate_caches()
print(importlib.metadata.version('numpy') == numpy.__version__, importlib.util.find_spec('planted').name)
"""


@pytest.mark.filterwarnings("ignore")
def test_a_library_that_asks_whether_there_is_a_package_hears_no(sandbox: Sandbox) -> None:
    with sandbox.open_workspace() as workspace:
        workspace.put("planted.py", b"print('GOT')")
        result = sandbox.run(workspace, ASK, LIMITS)
    assert (result.status, result.stdout) == ("ok", "[None, None, None]\nTrue planted\n"), result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reader", READERS)
def test_modules_of_ones_own_can_be_used(reader: str, sandbox: Sandbox) -> None:
    with sandbox.open_workspace() as workspace:
        made = sandbox.run(workspace, HELPER, LIMITS)
        assert made.status == "ok", made
        result = sandbox.run(workspace, READERS[reader] + "\nprint(model.value)", LIMITS)
    assert (result.status, result.stdout) == ("ok", "42\n"), result


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_installed_is_ones_own(sandbox: Sandbox) -> None:
    """A program that asks for it by name gets it, as from any folder."""
    if importlib.util.find_spec("bottleneck"):
        pytest.skip("it is installed")
    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "open('bottleneck.py', 'w').write('VALUE = 42')", LIMITS)
        result = sandbox.run(workspace, "import pandas, bottleneck\nprint(bottleneck.VALUE)", LIMITS)
    assert (result.status, result.stdout) == ("ok", "42\n"), result
