"""Code that went unobserved gets the benefit of the doubt only if it calls what could open a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.coach.calls import may_open

CALLS = [
    "import polars as pl\npl.read_parquet('X_train.parquet')",
    "from polars import scan_csv as scan\nscan('train.csv').collect()",
    "import polars\nread = polars.read_csv\nread('train.csv')",
    "import polars\nfor read in (polars.read_csv,):\n    read('train.csv')",
    "import importlib\nimportlib.import_module('pol' + 'ars').read_csv('train.csv')",
    "__import__('polars').read_csv('train.csv')",
    "import helper\nhelper.load()",
    "from helper import *\nload()",
    "from . import time\ntime.load()",
    "open('X_train.pkl')",
    "exec('open(1)')",
    "import ctypes\nctypes.CDLL(None)['open'](b'X', 0)",
    "import ctypes\n(ctypes.CDLL if 1 else None)(None)",
    "import subprocess\nsubprocess.run(['cat', 'X'])",
    "import os\nos.system('cat X')",
    "import subprocess, sys\nsubprocess.run([sys.executable, 'job.py'])",
    "import subprocess\nsubprocess.run(['true'], executable='/bin/cat')",
    "import subprocess\nsubprocess.run(command)",
    "def load():\n    return open('X')\nload()",
    "def run(print):\n    print('X')\nimport polars\nrun(polars.read_csv)",
    "import polars\nprint = polars.read_csv\nprint('X')",
    "from polars import read_csv as print\nprint('X')",
    "import polars as math\nmath.read_csv('X')",
    "(lambda read: read('X'))(polars.read_csv)",
]
NO_CALLS = [
    "",
    "import polars",
    "import polars, sys\nprint('X_train.pkl is missing', file=sys.stderr)\nsys.exit(1)",
    "from polars import read_csv\nraise FileNotFoundError(2, 'No such file', 'X_train.pkl')",
    "import ctypes, time\ntime.sleep(1)",
    "import ctypes\n'X_train.pkl'.upper()\nf'{1}'.join([str(2)])",
    "import ctypes\ndef stop():\n    raise SystemExit('blocked')\nstop()",
    "import ctypes\nclass Blocked(Exception):\n    pass\nraise Blocked('by the engineer')",
    "import ctypes\n(lambda: print(1))()",
    "import subprocess\nsubprocess.run(['true'], check=True)",
    "import os\nos.system('sleep 1')",
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'])",
]
UNCERTAIN = [
    "polars.read_csv('X'",
    "\0",
    "\ud800",
    "-" * 40_000 + "1",
    "pass\n" * 20_000,
    "f" + "()" * 20_000,
]


@pytest.mark.parametrize("code", CALLS)
def test_a_call_of_what_could_open_a_file_may_have(code: str) -> None:
    assert may_open(code)


@pytest.mark.parametrize("code", NO_CALLS)
def test_imports_and_calls_of_what_opens_no_file_have_not(code: str) -> None:
    assert not may_open(code)


@pytest.mark.parametrize("code", UNCERTAIN, ids=range(len(UNCERTAIN)))
def test_code_that_cannot_be_looked_through_may_have(code: str) -> None:
    """A sandbox with a newer Python runs what this one cannot parse."""
    assert may_open(code)


@given(st.text(max_size=60))
def test_any_text_gets_an_answer(code: str) -> None:
    assert may_open(code) in (True, False)
