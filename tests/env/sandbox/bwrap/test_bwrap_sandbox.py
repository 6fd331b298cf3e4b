"""The bubblewrap sandbox reports the same facts as ``process``, and hides the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from mappa_env.sandbox import Limits, Result, make_sandbox
from mappa_env.sandbox.bwrap import command as bwrap_command
from mappa_env.sandbox.bwrap import watch as bwrap_watch
from mappa_env.sandbox.bwrap.sandbox import BwrapSandbox
from mappa_env.workspace.workspace import Workspace
from sandbox_story import STORY, tell

SMALL = Limits(wall_s=60, memory_mb=1024, disk_mb=8, output_cap_mb=1)
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def sandbox() -> BwrapSandbox:
    made = BwrapSandbox()
    with made.open_workspace() as workspace:
        result = made.run(workspace, "", Limits())
    if result.status == "unavailable":
        pytest.skip(result.stderr)
    return made


@pytest.fixture
def workspace(sandbox: BwrapSandbox) -> Iterator[Workspace]:
    with sandbox.open_workspace() as made:
        yield made


@pytest.fixture
def run(sandbox: BwrapSandbox, workspace: Workspace) -> Run:
    def go(code: str, limits: Limits = SMALL, seed: int = 7) -> Result:
        return sandbox.run(workspace, code, limits, seed=seed)

    return go


def alive(word: str) -> list[int]:
    """Processes whose environment mentions ``word``."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/environ", "rb") as stream:
                if word.encode() in stream.read() and pid != os.getpid():
                    found.append(pid)
        except OSError:
            continue
    return found


# -- the same as without it -------------------------------------------------------------------------------


def test_the_same_story_as_in_a_process(sandbox: BwrapSandbox) -> None:
    for code, inside, outside in zip(STORY, tell(sandbox), tell(make_sandbox("process")), strict=True):
        assert inside == outside, code


def test_what_a_result_says(run: Run, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "hush-hush")
    result = run(
        "import os, sys, tempfile\nopen(tempfile.mktemp(), 'w').close()\nopen('/dev/shm/x', 'w').close()\n"
        "print(os.environ['HOME'] == os.getcwd(), sys.stdin.read() == '', len(os.listdir('/proc/self/fd')))\n"
        "print(os.environ, open('/proc/self/cmdline').read(), file=sys.stderr)"
    )
    assert (result.status, result.exit_code, result.stdout) == ("ok", 0, "True True 4\n"), result.stderr
    assert "hush" not in result.stderr
    assert str(workspace.path) not in result.stderr
    assert (result.isolation, result.trust, result.files) == ("bwrap", "kernel", ())
    assert 0 < result.cpu_s < result.wall_s + 1
    assert result.peak_rss > 4 << 20
    assert run("import os\nprint(os.listdir('/tmp') + os.listdir('/dev/shm'))").stdout == "[]\n"


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [
        ("import os; os._exit(5)", "error", 5),
        ("import os; os._exit(137)", "error", 137),  # a code, not a signal
        ("import os; os.abort()", "killed", -6),
        ("import os; os.kill(os.getpid(), 9)", "killed", -9),
        ("x = ' ' * (4 << 30)", "memory", 1),
        ("a = []\nwhile True: a.append(bytes(1 << 20))", "memory", 1),
        ("open('x', 'wb').write(bytes(9 << 20))", "disk_limit", 1),
        ("for i in range(3): open(str(i), 'wb').write(bytes(4 << 20))", "disk_limit", 0),
        ("open('/tmp/x', 'wb').write(bytes(7 << 20))", "ok", 0),
        ("for i in range(20): open(f'/tmp/{i}', 'wb').write(bytes(7 << 20))", "disk_limit", 1),
        ("for i in range(20): open(f'/dev/shm/{i}', 'wb').write(bytes(7 << 20))", "disk_limit", 1),
        ("while True: print('x' * 1000)", "output_limit", -9),
        ("while True: pass", "timeout", -9),
    ],
)
def test_limits_have_names(run: Run, code: str, status: str, exit_code: int) -> None:
    result = run(
        "print('here', flush=True)\n" + code,
        Limits(cpu_s=1 if "pass" in code else 60, wall_s=120, memory_mb=512, disk_mb=8, output_cap_mb=1),
    )
    assert (result.status, result.exit_code) == (status, exit_code), result
    assert result.stdout.startswith("here\n")


LOOP = """
import os, time
for name in range(100_000_000):
    BODY
"""
EACH_ITS_OWN = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        held = bytearray(b"1") * (100 << 20)
        time.sleep(60)
time.sleep(60)
"""
FORK = """
import os, time
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
    except OSError:
        time.sleep(60)
"""


def test_what_only_the_host_can_see(run: Run) -> None:
    """The processes exceed a limit together, but none alone; only the wall limit bounds waiting."""
    assert run(EACH_ITS_OWN, Limits(wall_s=120, memory_mb=300)).status == "memory"
    assert run(FORK, Limits(wall_s=120, processes=10)).status == "killed"
    files = LOOP.replace("BODY", "open(f'/tmp/{name}', 'w').close()")
    assert run(files).status == "disk_limit"
    assert run("import time\nprint(1, flush=True)\ntime.sleep(60)", Limits(wall_s=1)).status == "timeout"


def test_a_stopped_action_ends_too(run: Run) -> None:
    result = run("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", Limits(wall_s=1))
    assert (result.status, result.exit_code) == ("timeout", -9)


# -- what is not there ------------------------------------------------------------------------------------


def test_the_host_is_not_there(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush")
    tmp_path.chmod(0o755)
    paths = [str(secret), str(workspace.path), "/etc/shadow", "/sys", "/boot", __file__, "/dev/tty"]
    code = f"import os\nprint([path for path in {paths} if os.path.exists(path)])"
    assert run(code).stdout == "[]\n"
    assert str(secret) in make_sandbox("process").run(Workspace(), code, SMALL).stdout


PROBES = {
    "import socket; socket.socket()": "PermissionError",
    "import socket; socket.create_connection(('127.0.0.1', 1))": "PermissionError",
    "print(open('/proc/net/dev').read().count(':'))": "1\n",
    "import os; print([p for p in os.listdir('/proc') if p.isdigit()])": "['1', '2']\n",
    "import socket, os; print(os.uname().nodename)": "sandbox\n",
    "open('/usr/x', 'w')": "Read-only file system",
    "open('/x', 'w')": "Read-only file system",
    "open('/dev/x', 'w')": "Read-only file system",
    "import json; open(json.__file__, 'a')": "Error",
    "import os; os.listdir('/proc/1/fd')": "PermissionError",
    "open('/proc/1/mem', 'rb')": "PermissionError",
    "import os; os.setuid(0)": "PermissionError",
    "import os\nfor pid in (1, -1):\n try: os.kill(pid, 9)\n except OSError: pass\nprint(1)": "1\n",
    "import ctypes; print(ctypes.CDLL(None, use_errno=True).unshare(0x10000000), ctypes.get_errno())": "-1 ",
    "print(*(line for line in open('/proc/self/status') if line[:6] in ('CapEff', 'CapBnd', 'Seccom')))": (
        "CapEff:\t0000000000000000\n CapBnd:\t0000000000000000\n Seccomp:\t2\n"
    ),
    "import os; print(os.getuid() in (0, 65534), len(os.getgroups()))": "False ",
    "import pwd, os; print(pwd.getpwuid(os.getuid()).pw_name)": "agent\n",
}


def test_nothing_opens(run: Run) -> None:
    """Runs all probes in one interpreter and returns each one's answer."""
    code = (
        f"import contextlib, io, json, traceback\nsaid = []\nfor probe in {list(PROBES)}:\n"
        "    out = io.StringIO()\n    with contextlib.redirect_stdout(out):\n"
        "        try: exec(probe)\n        except BaseException: print(traceback.format_exc())\n"
        "    said.append(out.getvalue())\nprint(json.dumps(said))"
    )
    result = run(code)
    assert result.status == "ok", result
    for (probe, expected), said in zip(PROBES.items(), json.loads(result.stdout), strict=True):
        assert expected in said, (probe, said)


DAEMON = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "600"], {"MARK": "WORD"})
    os._exit(0)
os.wait()
print("done")
"""


def test_nobody_survives(run: Run) -> None:
    word = f"bwrap-{os.getpid()}-{time.monotonic_ns()}"
    result = run(DAEMON.replace("WORD", word))
    assert (result.status, result.stdout) == ("ok", "done\n")
    assert alive(word) == []


HOST = """
import sys
from mappa_env.sandbox import Limits, make_sandbox
sandbox = make_sandbox("bwrap")
sandbox.run(sandbox.open_workspace(), sys.argv[1], Limits(wall_s=600))
"""


def test_nobody_survives_the_host(sandbox: BwrapSandbox, tmp_path: Path) -> None:
    word = f"bwrap-{os.getpid()}-{time.monotonic_ns()}"
    code = DAEMON.replace("WORD", word).replace("os.wait()", "import time; time.sleep(600)")
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # where a killed host leaves its folder
    with subprocess.Popen([sys.executable, "-c", HOST, code], env=env) as host:
        wait_for(lambda: bool(alive(word)))
        host.send_signal(signal.SIGKILL)
    wait_for(lambda: not alive(word))


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_many_threads_at_once_leave_nothing_behind(sandbox: BwrapSandbox) -> None:
    before = len(os.listdir("/proc/self/fd"))

    def one(i: int) -> tuple[str, str, str]:
        with sandbox.open_workspace() as workspace:
            result = sandbox.run(workspace, f"print({i})\nopen('f{i}', 'w').close()", SMALL, seed=i)
            return result.status, result.stdout, ",".join(change.path for change in result.files)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, range(16)))
    assert results == [("ok", f"{i}\n", f"f{i}") for i in range(16)]
    assert len(os.listdir("/proc/self/fd")) == before
    children = psutil.Process().children()  # other tests may have their own processes
    assert not [child for child in children if child.name() == "bwrap"]


def test_nothing_is_held_against_an_action_that_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the first check may precede the private folders and would see the host's."""
    monkeypatch.setattr(bwrap_watch, "MAX_SCRATCH_FILES", -1)
    with Workspace() as workspace, subprocess.Popen(["sleep", "60"], stdout=-1, stderr=-1) as process:
        init = process.pid
        watch = bwrap_watch.BwrapWatch(process, SMALL, init, workspace.storage.root, 0)
        assert watch._excess() is None
        process.kill()


def test_a_workspace_of_another_sandbox(sandbox: BwrapSandbox) -> None:
    with Workspace() as plain:
        plain.put("d/a", b"1")
        result = sandbox.run(plain, "open('d/a', 'a').write('2')\nopen('d/b', 'w')", SMALL)
        assert [change.path for change in result.files] == ["d/a", "d/b"], result.stderr


# -- failures and odd hosts -------------------------------------------------------------------------------

FAKE = """#!/bin/sh
if [ "$1" = --version ]; then echo bubblewrap VERSION; exit; fi
echo "bwrap: No permissions to create a new namespace" >&2
exit 1
"""


def attempt(python: str = sys.executable) -> str:
    with Workspace() as workspace:
        result = BwrapSandbox(python).run(workspace, "print(1)", SMALL)
    assert (result.status, result.isolation, result.files) == ("unavailable", "bwrap", ())
    return result.stderr


def test_bubblewrap_that_is_missing_old_or_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install bubblewrap" in attempt()
    for version, message in (("0.6.1", "0.7 or newer"), ("0.8.0", "No permissions to create")):
        monkeypatch.setenv("PATH", str(tmp_path / version))
        fake = tmp_path / version / "bwrap"
        fake.parent.mkdir()
        fake.write_text(FAKE.replace("VERSION", version))
        fake.chmod(0o755)
        assert message in attempt()
    restricted = tmp_path / "restricted"
    restricted.write_text("1\n")
    monkeypatch.setattr(bwrap_command, "_RESTRICTED", str(restricted))
    assert "/etc/apparmor.d/bwrap" in attempt()


def test_a_python_that_does_not_exist(sandbox: BwrapSandbox) -> None:
    assert "python='/no/such/python' does not run as a Python interpreter" in attempt("/no/such/python")


def test_another_python(sandbox: BwrapSandbox, tmp_path: Path) -> None:
    """A virtual environment in a folder that a private one covers."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    other = BwrapSandbox(python)
    with other.open_workspace() as workspace:
        result = other.run(workspace, "import sys\nprint(sys.executable)\nimport numpy", SMALL)
    assert (result.status, result.stdout) == ("error", f"{python}\n"), result.stderr
    assert "No module named 'numpy'" in result.stderr
