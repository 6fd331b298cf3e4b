"""Programs of every kind record: killed ones, notebooks, daemons, and those that record while they exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mappa_env.trace import read

RECORDING = """
import os, sys, gymnasium as gym, mappa_env
env = gym.make("mappa/MathChat-v0", sandbox="null", coach="off", record=sys.argv[1])
env.reset(seed=1)
over = False
while not over:
    *_, over, _, _ = env.step("plan: 1")
"""


def eventually(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return what()


def test_the_writer_of_a_killed_program_ends(tmp_path: Path) -> None:
    script = RECORDING + "print(mappa_env.team_env(env)._store._writer._process.pid, flush=True); input()"
    command = [sys.executable, "-c", script, str(tmp_path / "t.jsonl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        writer = int(process.stdout.readline())
        process.kill()
        process.wait()
        assert eventually(lambda: not Path(f"/proc/{writer}/exe").exists())
    assert len(list(read(tmp_path / "t.jsonl"))) == 1


SHADOWS = """
import os, sys, gymnasium as gym, mappa_env.trace
gym.make("mappa/MathChat-v0", sandbox="null", coach="off").close()
folder = sys.argv[2]
for name in ("signal", "random", "json", "socket", "types", "logging", "copy", "mappa_env"):
    open(os.path.join(folder, name + ".py"), "w").write("raise SystemExit('shadowed')")
os.chdir(folder)
sys.path[:0] = ["", folder, None]
"""
GONE = "import os, tempfile; os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())\n"
CLOSED = "import os; os.closerange(0, 2)\n"
AT_EXIT = """
import atexit, sys, gymnasium as gym, mappa_env
def last():
    play()
    env.close()
atexit.register(last)
def play():
    env.reset(seed=1)
    over = False
    while not over:
        *_, over, _, _ = env.step("plan: 1")
env = gym.make("mappa/MathChat-v0", sandbox="null", coach="off", record=sys.argv[1])
play()
"""
DELETED = (
    RECORDING
    + """
class Holder:
    def __init__(self, env):
        self.env, self.me = env, self
    def __del__(self):
        self.env.close()
holder = Holder(env)
del holder
"""
)


@pytest.mark.parametrize(
    ("script", "episodes"),
    [
        (SHADOWS + RECORDING, 1),
        ("import pettingzoo, mappa_env\n" + GONE + RECORDING, 1),
        ("import mappa_env\n" + CLOSED + RECORDING, 1),
        (AT_EXIT, 2),
        (DELETED, 1),
    ],
    ids=["shadows", "no folder", "no streams", "at exit", "deleted"],
)
def test_programs_of_every_kind_record(tmp_path: Path, script: str, episodes: int) -> None:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "t.jsonl.gz"
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "folder")]
    done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert eventually(lambda: len(list(read(path))) == episodes)
    if "env.close()" in script:
        assert path.read_bytes()[:2] == b"\x1f\x8b"


def test_a_fork_that_outlives_a_killed_program_does_not_hold_its_writer(tmp_path: Path) -> None:
    script = RECORDING + (
        "pid = mappa_env.team_env(env)._store._writer._process.pid\n"
        "if not os.fork():\n    import time; time.sleep(60)\n    os._exit(0)\n"
        "print(pid, flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "t.jsonl")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        writer = int(process.stdout.readline())
        process.kill()
        process.wait()
        try:
            assert eventually(lambda: not Path(f"/proc/{writer}/exe").exists())
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the fork
    assert len(list(read(tmp_path / "t.jsonl"))) == 1


def test_a_handler_of_a_signal_may_close_what_is_in_use(tmp_path: Path) -> None:
    script = (
        RECORDING + "import signal, time\n"
        "signal.signal(signal.SIGALRM, lambda *_: (env.close(), os._exit(7)))\n"
        "store = mappa_env.team_env(env)._store\n"
        "episode = mappa_env.team_env(env).trajectory\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "while True:\n    store.append(episode)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "t.jsonl")]
    assert subprocess.run(command, timeout=60, check=False).returncode == 7
    assert len(list(read(tmp_path / "t.jsonl"))) > 1


def test_a_program_that_goes_elsewhere_closes_the_file_that_it_opened(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = RECORDING + "os.chdir('elsewhere'); env.close()"
    command = [sys.executable, "-c", script, "t.jsonl.gz"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "t.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert len(list(read(tmp_path / "t.jsonl.gz"))) == 1
