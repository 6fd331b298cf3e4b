"""What code opens, lists or asks for is noted by every sandbox, however the code ends or hides it."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fake_fusion import FakeFusion
from mappa_env.errors import SandboxError
from mappa_env.sandbox import Limits, Result, Sandbox, make_sandbox
from mappa_env.sandbox.action_file import ActionFile
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.sandbox.null import NullSandbox
from mappa_env.sandbox.runner import LAST, NOTES, UNSEEN

Run = Callable[..., Result]
TRY = "try:\n    {}\nexcept OSError:\n    pass\n"
NATIVE = {
    "ctypes": "import ctypes\nctypes.CDLL(None).open(b'a.pkl', 0)",
    "ctypes, put together": "__import__('cty' + 'pes').CDLL(None).getpid()",
    "a package with machine code": "import yaml",
    "the same, later": "def load():\n    from yaml import safe_load\n    return safe_load('1')\nload()",
    "by its name": "import importlib\nimportlib.import_module('yaml')",
}
IN_PYTHON = {
    "the usual packages": "import numpy, pandas, scipy.stats, joblib, sklearn.ensemble",
    "a fit": """
import joblib, pickle
from sklearn.linear_model import LogisticRegression
model = LogisticRegression().fit([[0], [1]], [0, 1])
pickle.loads(pickle.dumps(model)).predict([[1]])
""",
    "a pickle loads it": "import pickle\nprint(pickle.loads(b'cyaml\\nYAMLError\\n.'))",
    "the standard library": "import csv, decimal, json, lzma, sqlite3, ssl, uuid, zlib, multiprocessing",
}
CASES = {
    "nothing": ("if False:\n    open('a.pkl')", ()),
    "f-string": (TRY.format("open(f'{chr(97)}.pkl')"), ("a.pkl",)),
    "absolute": ("import os\n" + TRY.format("open(os.getcwd() + '/d/../a.pkl')"), ("a.pkl",)),
    "bytes": (TRY.format("open(b'\\xff\\n')"), ("\\xff\\x0a",)),
    "outside": ("import os\nos.listdir('/')\nos.path.exists('/etc/passwd')\nopen('/dev/null')", ()),
    "leaves": ("import os\nos.path.exists('../a.pkl')\nos.path.exists('.')", ()),
    "chdir": ("import os\nos.mkdir('d')\nos.chdir('d')\n" + TRY.format("open('a.pkl')"), ("d/a.pkl",)),
    "asks": (
        "import os, pathlib\nos.path.exists('a')\npathlib.Path('b').is_dir()\nos.access('c', 0)",
        ("a", "b", "c"),
    ),
    "lists": (
        "import os, pathlib\nos.listdir()\nos.mkdir('d')\nlist(pathlib.Path('d').iterdir())",
        ("./", "d/"),
    ),
    "the last one last": (
        "open('a', 'w')\nopen('b', 'w')\nopen('a')\nimport os\nos.path.exists('c')",
        ("b", "c", "a"),
    ),
    "a fork": (
        "import os\nif not os.fork():\n    open('f', 'w')\n    os._exit(0)\nos.wait()\nopen('g', 'w')",
        ("f", "g"),
    ),
    "a program": (
        "open('a', 'w')\nimport subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import job'])",
        None,
    ),
    "a shell": ("open('a', 'w')\nimport os\nos.system('cat <a')", None),
    "an empty program": (
        "open('a', 'w')\nimport os, subprocess, sys\nos.system('true')\n"
        "subprocess.run(['sleep', '0'])\nsubprocess.run([sys.executable, '-c', ''])",
        ("a",),
    ),
    "a program that lists": ("import os\nopen('a', 'w')\nos.system('ls -l; true')", ("./", "a")),
    "too many": (f"import os\nfor n in range({NOTES}):\n    os.path.exists(str(n))", None),
    "crash": ("open('a', 'w')\n1 / 0", ("a",)),
    "exit": ("import os\nopen('a', 'w')\nos._exit(3)", ("a",)),
    "abort": ("import os\nopen('a', 'w')\nos.abort()", ("a",)),
    "timeout": ("open('a', 'w')\nwhile True:\n    pass", ("a",)),
    "memory": ("open('a', 'w')\nx = bytearray(2**62)", ("a",)),
    "overwritten": (
        "import gc, mmap, types\n"
        "for f in gc.get_objects():\n"
        "    for cell in getattr(f, '__closure__', None) or ():\n"
        "        if isinstance(cell.cell_contents, mmap.mmap):\n"
        "            cell.cell_contents[:] = bytes([255]) * len(cell.cell_contents)",
        None,
    ),
    "imports": ("try:\n    import no_such_module\nexcept ImportError:\n    pass", ()),
    "a thread": (
        "import threading\nt = threading.Thread(target=open, args=('a', 'w'))\nt.start()\nt.join()",
        ("a",),
    ),
    "replaced": (
        "import os, sys\nos.getcwd = os.path.normpath = sys._getframe = None\nopen('a', 'w')",
        ("a",),
    ),
    "forged events": (
        "import sys\nfor args in ((), (None,), (3,), ('a',)):\n    sys.audit('open', *args)",
        ("a",),
    ),
}


@pytest.fixture(scope="module", params=["full", "landlock", "process", "bwrap", "fusion"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    if request.param == "fusion":
        with FakeFusion() as server:
            yield running(make_sandbox(f"fusion:{server.url}"))
        return
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    try:
        local = request.param in ("full", "landlock")
        made = LocalSandbox(level=request.param) if local else make_sandbox(request.param)
        assert made.isolation == request.param
    except SandboxError as error:
        pytest.skip(f"this machine does not support it: {error}")
    yield running(made)


def running(sandbox: Sandbox) -> Run:
    def run(code: str, wall_s: float = 60) -> Result:
        with warnings.catch_warnings(), sandbox.open_workspace() as workspace:
            warnings.simplefilter("ignore")
            return sandbox.run(workspace, code, Limits(wall_s=wall_s))

    return run


@pytest.mark.parametrize("name", CASES)
def test_what_is_opened_is_noted(run: Run, name: str) -> None:
    code, expected = CASES[name]
    result = run(code, wall_s=2 if name == "timeout" else 60)
    assert result.status != "unavailable", result
    assert result.opened == expected, result


def test_the_code_sees_what_it_saw_before(run: Run) -> None:
    code = """
import inspect, os, pickle, shutil, traceback
assert str(inspect.signature(os.stat)).endswith("path, *, dir_fd=None, follow_symlinks=True)")
assert os.stat.__name__ == 'stat' and os.stat in os.supports_dir_fd and shutil.rmtree.avoids_symlink_attacks
assert pickle.loads(pickle.dumps(os.stat)) is os.stat
for ask in (os.stat, os.lstat, lambda path: os.access(path, 0)):
    try:
        ask(None if ask is not os.stat else 'a')
    except (OSError, TypeError) as error:
        assert all('action' in frame.filename for frame in traceback.extract_tb(error.__traceback__))
    else:
        raise AssertionError
seen = []
import sys
sys.addaudithook(lambda event, args: seen.append(event))
open('b', 'w').close()
assert 'open' in seen
def deep():
    return deep()
try:
    deep()
except RecursionError:
    pass
os.stat('nowhere')
"""
    result = run(code)
    assert [line for line in result.stderr.splitlines() if line.strip(" ~^")] == [
        "Traceback (most recent call last):",
        '  File "<action>", line 24, in <module>',
        "    os.stat('nowhere')",
        "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'",
    ]


def test_who_does_not_observe_says_so() -> None:
    sandbox = NullSandbox()
    with sandbox.open_workspace() as workspace:
        assert sandbox.run(workspace, "", Limits()).opened is None
    with make_sandbox("calculator").open_workspace() as workspace:
        assert make_sandbox("calculator").run(workspace, "print(1 + 2)", Limits()).opened == ()


@pytest.mark.parametrize("forged", [b"\xff" * NOTES, b"\0" * NOTES, b"\1\0\0\0" * (NOTES // 4), b"\x7f" * 8])
def test_any_bytes_in_place_of_notes_are_read(forged: bytes) -> None:
    with ActionFile("pass") as file:
        memory = memoryview(bytearray(NOTES))
        memory[: len(forged)] = forged
        memory[UNSEEN] = 0
        os.pwrite(file.fd, memory, 0)
        found = file.opened()
        assert found is not None
        assert all(name.isprintable() for name in found)
        assert LAST.stop <= UNSEEN
        with pytest.raises(PermissionError):
            os.ftruncate(file.fd, 2**30)
        os.pwrite(file.fd, b"x" * 2**20, 0)
        assert os.fstat(file.fd).st_size < 2**15


@pytest.mark.parametrize("code", NATIVE.values(), ids=NATIVE)
def test_machine_code_of_the_program_may_open_anything(code: str) -> None:
    with _place() as run:
        assert run(code).opened is None


@pytest.mark.parametrize("code", IN_PYTHON.values(), ids=IN_PYTHON)
def test_packages_that_leave_opening_to_python_hide_nothing(code: str) -> None:
    with _place() as run:
        result = run(f"{code}\nopen('a.pkl', 'w').close()")
        assert (result.status, result.opened) == ("ok", ("a.pkl",)), result.stderr


@contextmanager
def _place() -> Iterator[Run]:
    sandbox = make_sandbox("process")
    workspace = sandbox.open_workspace()
    try:
        yield lambda code: sandbox.run(workspace, code, Limits(wall_s=60, memory_mb=3072), seed=1)
    finally:
        workspace.remove()
        sandbox.close()
