"""State: what one action leaves for later ones, also of other agents or episodes; repeated random numbers."""

from __future__ import annotations

import os

import pytest

from attacks.harness import LIBC, LIMITS, Run, fill, unconfined
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.workspace.workspace import Workspace

PAIRS = {
    # what an action plants, and how another one finds it
    "file_in_tmp": ("open('/tmp/$unique', 'w')", "import os\nprint(os.path.exists('/tmp/$unique'))"),
    "file_in_temporary_folder": (
        "import os, tempfile\nopen(os.path.join(tempfile.gettempdir(), '$unique'), 'w')",
        "import os, tempfile\nprint(os.path.exists(os.path.join(tempfile.gettempdir(), '$unique')))",
    ),
    "shared_memory": (
        "open('/dev/shm/$unique', 'w')",
        "import os\nprint(os.path.exists('/dev/shm/$unique'))",
    ),
    "shared_memory_by_name": (
        "from multiprocessing import resource_tracker, shared_memory\n"
        "resource_tracker.register = lambda *_: None\n"
        "shared_memory.SharedMemory('$unique.m', create=True, size=10)",
        "from multiprocessing import shared_memory\nshared_memory.SharedMemory('$unique.m')\nprint(True)",
    ),
    "system_v_memory": (
        LIBC + "_libc.shmget(4711, 4096, 0o1666)",
        LIBC + "print(_libc.shmget(4711, 4096, 0o666) >= 0)",
    ),
    "system_v_queue": (LIBC + "_libc.msgget(4711, 0o1666)", LIBC + "print(_libc.msgget(4711, 0o666) >= 0)"),
    "message_queue": (
        LIBC + "_libc.mq_open(b'/mark', 0o102, 0o666, 0)",
        LIBC + "print(_libc.mq_open(b'/mark', 2) >= 0)",
    ),
    "key": (
        LIBC + "syscall($nr_keyctl, 1, 0)\nsyscall($nr_add_key, b'user', b'mark', b'x', 1, -3)",
        LIBC + "print(syscall($nr_request_key, b'user', b'mark', 0, 0) >= 0)",
    ),
    "module": ("import sys\nsys.modules['mark'] = sys", "import mark\nprint(True)"),
    "function_of_numpy": (
        "import numpy\nnumpy.mean = lambda *_: 'mark'",
        "import numpy\nprint(numpy.mean([1]) == 'mark')",
    ),
    "function_of_pandas": (
        "import pandas\npandas.DataFrame.mark = True",
        "import pandas\nprint(pandas.DataFrame.mark)",
    ),
    "method_of_sklearn": (
        "from sklearn.utils import validation as v\n"
        "v.check_array.__code__ = (lambda *a, **k: 'mark').__code__",
        "from sklearn.utils import check_array\nprint(check_array([[0.0]]) == 'mark')",
    ),
    "builtin": ("import builtins\nbuiltins.mark = True", "print(mark)"),
    "environment": ("import os\nos.environ['MARK'] = '1'", "import os\nprint('MARK' in os.environ)"),
    "environment_of_libc": (
        LIBC + "_libc.setenv(b'MARK', b'1', 1)",
        LIBC + "_libc.getenv.restype = ctypes.c_char_p\nprint(_libc.getenv(b'MARK') is not None)",
    ),
    "working_folder": (
        "import os\nos.makedirs('marked', exist_ok=True)\nos.chdir('marked')",
        "import os\nprint('marked' in os.getcwd())",
    ),
    "umask": ("import os\nos.umask(0o123)", "import os\nprint(os.umask(0) == 0o123)"),
    "limits": (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))",
        "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[1] == 50)",
    ),
    "niceness": (
        "import os\ntry: os.setpriority(os.PRIO_PROCESS, 0, 17)\nexcept OSError: pass",
        "import os\nprint(os.getpriority(os.PRIO_PROCESS, 0) == 17)",
    ),
    "signal_mask": (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
        "import signal\nprint(signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    ),
    "ignored_signal": (
        "import signal\nsignal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "import signal\nprint(signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN)",
    ),
    "recursion_limit": (
        "import sys\nsys.setrecursionlimit(77777)",
        "import sys\nprint(sys.getrecursionlimit() == 77777)",
    ),
    "warnings_filter": (
        "import warnings\nwarnings.simplefilter('error')\nwarnings.mark = True",
        "import warnings\nprint(hasattr(warnings, 'mark'))",
    ),
    "pandas_option": (
        "import pandas\npandas.set_option('display.max_rows', 7)",
        "import pandas\nprint(pandas.get_option('display.max_rows') == 7)",
    ),
    "numpy_print_option": (
        "import numpy\nnumpy.set_printoptions(precision=1)",
        "import numpy\nprint(numpy.get_printoptions()['precision'] == 1)",
    ),
    "import_hook": (
        "import sys\nclass Hook: pass\nsys.meta_path.insert(0, Hook())",
        "import sys\nprint(type(sys.meta_path[0]).__name__ == 'Hook')",
    ),
    "search_path": ("import sys\nsys.path.insert(0, '/mark')", "import sys\nprint('/mark' in sys.path)"),
    "exit_handler": ("import atexit\natexit.register(lambda: print(True))", "print('nothing')"),
    "audit_hook": (
        "import sys\nsys.addaudithook(lambda *_: sys.modules.setdefault('mark', sys))",
        "import mark\nprint(True)",
    ),
    "tracer": ("import sys\nsys.settrace(lambda *_: None)", "import sys\nprint(sys.gettrace() is not None)"),
}

PLANT = f"""
for source in {[plant for plant, _ in PAIRS.values()]}:
    try:
        exec(source, {{}})
    except Exception:
        pass
"""
FIND = f"""
for name, source in { ({name: find for name, (_, find) in PAIRS.items()}) }.items():
    print(name, end=' ')
    try:
        exec(source, {{}})
    except Exception as error:
        print(type(error).__name__)
"""


def found(run: Run) -> set[str]:
    """What was found, according to the output; an exit handler may print the last line."""
    return {line.split()[0] for line in run.stdout.splitlines() if line.endswith("True")}


def test_canary_what_is_planted_can_be_found() -> None:
    """Within one interpreter, the search finds every mark."""
    scene = Scene(os.getuid())
    with Workspace() as workspace:
        run = unconfined(PLANT + FIND, scene, workspace, cage=True)
    scene.left_behind()
    scene.close()
    assert found(run) >= set(PAIRS) - {"exit_handler"} | {"True"}, run.result


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_stays_but_files(level: str, sandboxes: Sandboxes) -> None:
    """The next actions search, in their own workspace and in the same one."""
    sandbox, scene = sandboxes[level], Scene(sandboxes.actor(level))
    plant, find = fill(PLANT, scene), fill(FIND, scene)
    with sandbox.open_workspace() as first, sandbox.open_workspace() as second:
        steps = ((first, plant), (second, find), (first, find), (second, find))
        results = [sandbox.run(workspace, code, LIMITS) for workspace, code in steps]
    scene.close()
    for result in results[1:]:
        assert found(Run(scene, result, second)) == set(), result
        assert len(result.stdout.splitlines()) == len(PAIRS), result


DRAWS = {
    "seeded": "import random\nimport numpy as np\nprint(random.random(), np.random.rand(), {'a', 'b', 'c'})",
    "system": "import os\nprint(os.urandom(8))",
    "secrets": "import secrets\nprint(secrets.token_hex(8))",
    "uuid": "import uuid\nprint(uuid.uuid4())",
    "numpy": "import numpy as np\nprint(np.random.default_rng().random())",
    "ssl": "import ssl\nprint(ssl.RAND_bytes(8))",
    "own_generator": "import random\nprint(random.Random().random())",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", DRAWS)
def test_numbers_repeat_only_where_they_are_seeded(source: str, level: str, sandboxes: Sandboxes) -> None:
    with sandboxes[level].open_workspace() as workspace:
        results = [sandboxes[level].run(workspace, DRAWS[source], LIMITS, seed=n) for n in (5, 5, 5, 6)]
    assert [result.status for result in results] == ["ok"] * 4, results
    *same, other = (result.stdout for result in results)
    assert len(set(same)) == (1 if source == "seeded" else 3)
    assert other not in same
