"""The process sandbox reports output, files and ends of processes correctly, and leaves nothing behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.sandbox import Limits, Result
from mappa_env.sandbox.output import Capture
from mappa_env.sandbox.process import ProcessSandbox
from mappa_env.workspace.workspace import Workspace

SMALL = Limits(wall_s=60, memory_mb=1024, disk_mb=8, output_cap_mb=1)
Run = Callable[..., Result]


@pytest.fixture
def run(workspace: Workspace) -> Run:
    sandbox = ProcessSandbox()

    def go(code: str, limits: Limits = SMALL, seed: int = 7) -> Result:
        return sandbox.run(workspace, code, limits, seed=seed)

    return go


def alive(word: str) -> list[int]:
    """Processes whose command line or environment mentions ``word``."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for file in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{file}", "rb") as stream:
                    if word.encode() in stream.read() and int(pid) != os.getpid():
                        found.append(int(pid))
        except OSError:
            continue
    return found


# -- what an action sees ----------------------------------------------------------------------------------


def test_an_ordinary_action(run: Run, workspace: Workspace) -> None:
    workspace.put("in.csv", b"1,2")
    result = run(
        "import sys\nprint(open('in.csv').read())\nopen('out', 'w').write('x')\nprint('e', file=sys.stderr)"
    )
    assert (result.status, result.exit_code, result.stdout, result.stderr) == ("ok", 0, "1,2\n", "e\n")
    assert [(f.path, f.op, f.size) for f in result.files] == [("out", "created", 1)]
    assert (result.isolation, result.trust, result.truncated) == ("process", "kernel", 0)
    assert 0 < result.cpu_s < result.wall_s + 1
    assert result.peak_rss > 4 << 20


def test_data_science_works(run: Run) -> None:
    result = run(
        "import pandas as pd\nfrom sklearn.linear_model import LinearRegression\n"
        "t = pd.DataFrame({'a': [1, 2, 3], 'b': [2, 4, 6]})\nt.to_pickle('t.pkl')\n"
        "print(LinearRegression().fit(t[['a']], t['b']).coef_.round(3))",
        Limits(),
    )
    assert (result.status, result.stdout) == ("ok", "[2.]\n"), result.stderr
    assert [f.path for f in result.files] == ["t.pkl"]


def test_tracebacks_show_the_agents_source_alone(run: Run) -> None:
    result = run("def f():\n    return 1 / 0  # here\nf()")
    assert (result.status, result.exit_code) == ("error", 1)
    assert "return 1 / 0  # here" in result.stderr
    assert 'File "<action>", line 2, in f' in result.stderr
    assert "runner" not in result.stderr
    printed = run("import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()")
    assert "    1 / 0\n" in printed.stderr


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        ("exit(3)", 3, ""),
        ("quit()", 0, ""),
        ("raise SystemExit('bye')", 1, "bye\n"),
        ("import os; os._exit(5)", 5, ""),
        ("def f(:", 1, "SyntaxError"),
        ("\0", 1, "null bytes"),
        ("'\ud800'", 0, ""),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
    ],
)
def test_every_way_to_end(run: Run, code: str, exit_code: int, stderr: str) -> None:
    result = run(code)
    assert (result.status, result.exit_code) == ("error" if exit_code else "ok", exit_code)
    assert stderr in result.stderr


def test_code_is_main_and_keeps_its_own_names(run: Run) -> None:
    result = run(
        "import pickle, sys\nclass A: pass\n"
        "print(__name__, A.__module__, type(pickle.loads(pickle.dumps(A()))) is A)\n"
        "print(sys.argv, sorted(globals()))"
    )
    names = ["A", "__builtins__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"]
    assert result.stdout == f"__main__ __main__ True\n['<action>'] {[*names, 'pickle', 'sys']}\n", (
        result.stderr
    )


def test_the_environment_is_scrubbed(run: Run, monkeypatch: pytest.MonkeyPatch, workspace: Workspace) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "hush-hush")
    result = run(
        "import os, sys, tempfile\nopen(tempfile.mktemp(), 'w').close()\n"
        "print(os.environ['HOME'] == os.getcwd(), sys.stdin.read() == '', len(os.listdir('/proc/self/fd')))\n"
        "print(os.environ, sys.argv, open('/proc/self/cmdline').read())"
    )
    assert result.stdout.startswith("True True 4\n")  # three streams and the listing's own descriptor
    assert "hush" not in result.stdout
    assert os.getcwd() + "/tests" not in result.stdout
    assert result.files == ()  # temporary files are not part of the file history
    run("")
    assert os.listdir(workspace.scratch) == []


def test_workspace_modules_help_but_never_shadow(run: Run, workspace: Workspace) -> None:
    workspace.put("json.py", b"raise RuntimeError('shadowed')")
    workspace.put("numpy.py", b"raise RuntimeError('shadowed')")
    workspace.put("helper.py", b"VALUE = 42")
    result = run("import json, helper\nimport numpy as np\nprint(json.dumps(1), helper.VALUE, np.ones(1))")
    assert (result.status, result.stdout) == ("ok", "1 42 [1.]\n"), result.stderr
    assert result.files == ()


# -- determinism ------------------------------------------------------------------------------------------

DRAW = "import {} as r\nprint(r.random(), list({{'a', 'b', 'c', 'd', 'e'}}))"


@pytest.mark.parametrize("source", ["random", "numpy.random"])
def test_the_seed_fixes_what_is_drawn(run: Run, source: str) -> None:
    results = [run(DRAW.format(source), seed=seed) for seed in (1, 1, 2)]
    assert [result.status for result in results] == ["ok"] * 3, results
    first, again, other = (result.stdout for result in results)
    assert first == again
    assert first != other


def test_modules_imported_by_others_are_seeded_too(run: Run, workspace: Workspace) -> None:
    workspace.put("helper.py", b"from random import random\nimport numpy as np")
    outputs = {
        run("import helper\nprint(helper.random(), helper.np.random.rand())", seed=5).stdout for _ in "ab"
    }
    assert len(outputs) == 1
    assert outputs != {""}


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**40, -1])
def test_any_integer_is_a_seed(run: Run, seed: int) -> None:
    result = run("import numpy as np\nprint(np.random.rand() < 1)", seed=seed)
    assert result.stdout == "True\n", result.stderr


# -- limits -----------------------------------------------------------------------------------------------


DEAF = """
import os, signal
for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
"""
EACH_ITS_OWN = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        held = bytearray(100 << 20)
        for i in range(0, len(held), 4096):
            held[i] = 1
        time.sleep(60)
time.sleep(60)
"""
ALL_THE_SAME = """
import os, time
held = b"1" * (100 << 20)
for _ in range(6):
    if os.fork() == 0:
        time.sleep(0.8)
        os._exit(0)
time.sleep(0.8)
"""
MANY = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        time.sleep(60)
time.sleep(60)
"""


def test_a_timeout_keeps_what_was_printed(run: Run) -> None:
    result = run(
        "print('line')\nprint('part', end='')\nopen('f', 'w').close()\nwhile True: pass", Limits(wall_s=3)
    )
    assert (result.status, result.stdout) == ("timeout", "line\npart")
    assert [f.path for f in result.files] == ["f"]
    assert 3 <= result.wall_s < 30


def test_ignored_signals_do_not_help(run: Run) -> None:
    assert run(DEAF + "os.kill(os.getpid(), signal.SIGSTOP)", Limits(wall_s=0.5)).status == "timeout"
    assert run(DEAF + "while True: pass", Limits(cpu_s=1)).status == "timeout"
    handler = "import os, signal\nsignal.signal(signal.SIGXCPU, lambda *_: os._exit(0))\nwhile True: pass"
    assert run(handler, Limits(cpu_s=1)).status == "timeout"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("x = ' ' * (4 << 30)", "memory"),
        ("import numpy as np; np.ones(1 << 30)", "memory"),
        ("a = []\nwhile True: a.append(bytes(1 << 20))", "memory"),
        ("try: ' ' * (4 << 30)\nexcept MemoryError: print('fine')", "ok"),
        ("open('x', 'wb').write(bytes(9 << 20))", "disk_limit"),
        ("for i in range(3): open(str(i), 'wb').write(bytes(4 << 20))", "disk_limit"),
        ("f = open('x', 'wb'); f.truncate(7 << 20)", "ok"),
        ("while True: print('x' * 1000)", "output_limit"),
        ("import os\nos.kill(os.getpid(), 9)", "killed"),
        ("import os\nos.abort()", "killed"),
        ("import ctypes; ctypes.string_at(0)", "killed"),
        ("while True: pass", "timeout"),
    ],
)
def test_limits_have_names(run: Run, code: str, status: str) -> None:
    result = run(code, Limits(cpu_s=1, memory_mb=512, disk_mb=8, output_cap_mb=1))
    assert result.status == status, result


def test_what_the_host_gave_does_not_count_as_used_disk(run: Run, workspace: Workspace) -> None:
    workspace.put("big", bytes(20 << 20))
    assert run("open('x', 'w').write('1')").status == "ok"


def test_a_tree_of_processes_counts_as_one(run: Run) -> None:
    assert run(EACH_ITS_OWN, Limits(memory_mb=300)).status == "memory"
    assert run(ALL_THE_SAME, Limits(memory_mb=300)).status == "ok"  # shared pages count once
    assert run(MANY, Limits(processes=10)).status == "killed"


def test_a_flood_is_cut_in_the_middle(run: Run) -> None:
    result = run("print('A' + 'x' * 300_000 + 'Z')", Limits(output_kb=2))
    assert (result.status, result.truncated) == ("ok", 300_003 - 2048)
    assert result.stdout.startswith("Axxx")
    assert result.stdout.endswith("xZ\n")
    assert f"[... {result.truncated} bytes dropped ...]" in result.stdout
    assert len(result.stdout) < 2200


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 60))
def test_capture_accounts_for_every_byte(chunks: list[bytes], limit: int) -> None:
    capture, whole = Capture(limit), b"".join(chunks)
    for chunk in chunks:
        capture.feed(chunk)
    assert capture.total == len(whole)
    half = max(limit // 2, 1)
    assert capture.dropped == max(len(whole) - 2 * half, 0)
    if capture.dropped:
        assert capture.text().startswith(whole[:half].decode("utf-8", "replace"))
        assert capture.text().endswith(whole[-half:].decode("utf-8", "replace"))
    else:
        assert capture.text() == whole.decode("utf-8", "replace")


def test_bytes_that_are_no_text(run: Run) -> None:
    result = run("import sys\nsys.stdout.buffer.write(b'\\xff\\x00ok\\n')\nprint('\\ud800')")
    assert (result.status, result.stdout) == ("ok", "\ufffd\0ok\n?\n")


# -- nothing stays ----------------------------------------------------------------------------------------


DAEMON = """
import os, signal, time
if os.fork() == 0:
    ESCAPE
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print("done")
"""
LATE_WRITER = """
import os, time
if os.fork() == 0:
    i = 0
    while True:
        with open(f"f{i % 9}", "w") as file:
            file.write(str(i))
        i += 1
while not os.path.exists("f8"):
    time.sleep(0.01)
"""
SPECIAL = """
import os, socket
os.mkfifo("fifo")
os.link("fifo", "again")
os.symlink("/etc/passwd", "link")
os.symlink("self", "self")
socket.socket(socket.AF_UNIX).bind("sock")
open(b"\\xff\\n", "w").close()
"""
ESCAPES = ["pass", "os.setsid()", "os.setsid(); os.closerange(0, 3)", "signal.signal(1, signal.SIG_IGN)"]


@pytest.mark.parametrize("escape", ESCAPES)
def test_children_do_not_survive(run: Run, workspace: Workspace, escape: str) -> None:
    result = run(DAEMON.replace("ESCAPE", escape))
    assert (result.status, result.stdout) == ("ok", "done\n")
    assert result.wall_s < 20
    until = time.monotonic() + 20  # they would live for a minute; a busy host reaps killed processes slowly
    while alive(str(workspace.path)) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(str(workspace.path)) == []


def test_a_late_writer_is_dead_before_the_scan(run: Run) -> None:
    first = run(LATE_WRITER)
    assert first.status == "ok"
    assert first.files
    assert run("pass").files == ()


def test_code_that_removes_its_own_folder(run: Run, workspace: Workspace) -> None:
    workspace.put("a", b"1")
    assert [(f.path, f.op) for f in run("import shutil, os\nshutil.rmtree(os.getcwd())").files] == [
        (".", "modified"),
        ("a", "deleted"),
    ]
    assert run("open('b', 'w').close()").files[0].path == "b"
    run("import shutil, os\nshutil.rmtree(os.path.dirname(os.getcwd()))")
    assert run("open('b', 'w').close()").status == "ok"


def test_special_files_do_not_stop_the_host(run: Run) -> None:
    kinds = {change.path: change.kind for change in run(SPECIAL).files}
    assert kinds.pop("\\xff\\x0a") == "file"
    assert kinds == {"again": "fifo", "fifo": "fifo", "link": "link", "self": "link", "sock": "socket"}


@pytest.mark.slow
def test_many_threads_at_once_leave_nothing_behind() -> None:
    sandbox = ProcessSandbox()
    others = {child.pid for child in psutil.Process().children()}  # of other tests
    before = len(os.listdir("/proc/self/fd"))
    start = threading.Barrier(64)

    def one(i: int) -> tuple[str, str, str]:
        with Workspace() as workspace:
            start.wait()
            slow = i % 16 == 0
            code = f"import time\nprint({i})\nopen('f{i}', 'w').close()\ntime.sleep({60 if slow else 0})"
            result = sandbox.run(workspace, code, Limits(wall_s=20 if slow else 120), seed=i)
            return result.status, result.stdout, ",".join(f.path for f in result.files)

    with ThreadPoolExecutor(64) as pool:
        results = list(pool.map(one, range(64)))
    for i, (status, out, files) in enumerate(results):
        assert (status, out, files) == ("timeout" if i % 16 == 0 else "ok", f"{i}\n", f"f{i}")
    assert len(os.listdir("/proc/self/fd")) == before
    new = [child for child in psutil.Process().children() if child.pid not in others]
    assert not [child for child in new if child.status() == psutil.STATUS_ZOMBIE]
