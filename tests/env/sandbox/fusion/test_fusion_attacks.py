"""Attacks of the agent's code on its wrapper: none may void the action or change its report."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator

import pytest

from fake_fusion import FakeFusion
from mappa_env.sandbox import Limits, Result, make_sandbox
from mappa_env.sandbox.fusion import request
from mappa_env.workspace.workspace import Workspace
from other_pythons import NOBODY, python_for_nobody

Run = Callable[..., Result]

KILL = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()\n"
FORGE = """
import json, os
os.chdir("..")
json.dump({"nonce": "", "status": "ok", "stdout": "forged"}, open("rc.json", "w"))
open("out.tar", "w").close()
"""
OBSTRUCT = """
import os
os.chdir("..")
for name in os.listdir("."):
    if name not in ("ws", "tmp", "mappa_env"):
        os.remove(name)
        os.makedirs(name + "/x")
open("ws/f", "w").close()
"""
TRAP = """
import os, re
os.chdir("..")
seen = re.findall(r"[0-9a-f]{32}", str(os.listdir(".")) + open("main.py").read() + str(os.environ))
for name in ("rc.json", "out.tar", *(a + b for a in seen for b in (".json", ".tar"))):
    os.symlink("/proc/self/mem", name)  # the server fails when it reads this
"""
CRIPPLE = """
import os, resource
resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (0, 0))
open("f", "w").close()
"""
STOP = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)\n"
READ_NONCE = """
import os, re, sys
parent = os.getppid()
found = set()
for line in open(f"/proc/{parent}/maps"):
    start, end = (int(part, 16) for part in line.split()[0].split("-"))
    if "rw" in line.split()[1]:
        with open(f"/proc/{parent}/mem", "rb", 0) as file:
            try:
                file.seek(start)
                found |= set(re.findall(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", file.read(end - start)))
            except (OSError, ValueError):
                continue
print(*(one.decode() for one in found))
"""


ESCAPE = """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        open("pid.tmp", "w").write(str(os.getpid()))
        os.rename("pid.tmp", "pid")
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
while not os.path.exists("pid"):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("attack", [KILL, FORGE + KILL, TRAP + KILL, CRIPPLE])
def test_code_that_ends_its_wrapper_is_not_excused(
    run: Run, server: FakeFusion, attack: str, deaf: bool
) -> None:
    """Not even if the server loses what the wrapper printed."""
    assert run().status == "ok"
    server.deaf = deaf
    result = run(attack)
    assert (result.status, result.files) == ("killed", ())
    assert "the action may have killed it" in result.stderr


def test_forged_and_blocked_files_change_nothing(run: Run) -> None:
    assert run(FORGE).stdout == ""
    result = run(OBSTRUCT)
    assert (result.status, [change.path for change in result.files]) == ("ok", ["f"])
    assert run(TRAP).status == "ok"


def test_code_that_stops_its_wrapper_is_ended_soon(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.sub(r"LATE_S = [\d.]+", "LATE_S = 1.0", request.source("wrapper.py"))
    real = request.source
    monkeypatch.setattr(request, "source", lambda name: text if name == "wrapper.py" else real(name))
    monkeypatch.setattr(request, "MARGIN_S", 20.0)  # what a server would wait
    assert run().status == "ok"
    started = time.monotonic()
    assert run(STOP, Limits(wall_s=1)).status == "killed"
    assert time.monotonic() - started < 15


def test_no_process_outlives_its_action(run: Run, workspace: Workspace) -> None:
    """It could read the nonce in the report, and replace it before the server fetches it."""
    assert run(ESCAPE).status == "ok"
    pid = int(workspace.read("pid"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.fixture
def other_user() -> Iterator[FakeFusion]:
    with FakeFusion(python_for_nobody(), NOBODY) as made:
        yield made


def test_another_user_cannot_read_the_nonce(other_user: FakeFusion, workspace: Workspace) -> None:
    sandbox = make_sandbox("fusion:" + other_user.url)

    def run(code: str) -> Result:
        return sandbox.run(workspace, code, Limits(wall_s=60, disk_mb=8))

    assert "PermissionError" in run(READ_NONCE).stderr
    assert run(KILL).status == "killed"
    assert run(TRAP + KILL).status == "killed"
    result = run("import os\nos.mkdir('d')\nopen('d/a', 'w').close()\nos.chmod('d', 0)\nos.chmod('.', 0)")
    assert (result.status, [change.path for change in result.files]) == ("ok", ["d", "d/a"])


def test_the_servers_own_user_can_read_it(server: FakeFusion, workspace: Workspace) -> None:
    """What the warning is about; if this fails, docs/fusion.md and the warning are out of date."""
    if os.getuid() != 0:
        pytest.skip("another user than root reads it from the server, not from the wrapper")
    sandbox = make_sandbox("fusion:" + server.url)
    result = sandbox.run(workspace, READ_NONCE, Limits(wall_s=60))
    nonce = server.bodies[-1]["fetch_files"][0].removesuffix(".json")
    assert nonce in result.stdout.split()
