"""Survivors: processes that try to outlive their action."""

from __future__ import annotations

import os
import time
from operator import attrgetter

import pytest

from attacks.harness import LIMITS, Attack, table, unconfined, wider
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.workspace.workspace import Workspace

BEAT = """
import os, signal, subprocess, sys, time
def beat(seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not os.path.exists('stop'):
        with open('beat', 'a') as file:
            file.write('x')
        time.sleep(0.005)
    os._exit(0)
def quietly(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        pass
def hush():
    null = os.open('/dev/null', os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
LOOP = '''
import os, time
while not os.path.exists('stop'):
    with open('beat', 'a') as file:
        file.write('x')
    time.sleep(0.005)
'''
def leave():
    for _ in range(4000):
        if os.path.exists('beat'):
            break
        time.sleep(0.005)
    sys.stdout.flush()
    os._exit(0)
"""
"""A survivor keeps writing to ``beat`` until the host writes ``stop``."""

SURVIVORS = table(
    """
### child
if os.fork() == 0:
    hush()
    beat()
leave()
### daemon
if os.fork() == 0:
    hush()
    quietly(os.setsid)
    if os.fork() == 0:
        beat()
    os._exit(0)
os.wait()
leave()
### deaf
if os.fork() == 0:
    hush()
    quietly(os.setsid)
    for number in set(signal.valid_signals()) - {9, 19}:
        quietly(signal.signal, number, signal.SIG_IGN)
    beat()
leave()
### own_group
if os.fork() == 0:
    hush()
    quietly(os.setpgid, 0, 0)
    beat()
leave()
### program
subprocess.Popen([sys.executable, '-S', '-c', LOOP], stdin=-3, stdout=-3, stderr=-3)
leave()
### program_in_own_session
try:
    subprocess.Popen([sys.executable, '-S', '-c', LOOP], stdin=-3, stdout=-3, stderr=-3,
                     start_new_session=True)
except OSError:
    sys.exit()
leave()
### phoenix
if os.fork() == 0:
    hush()
    for _ in range(2000):
        if os.fork():
            os._exit(0)
        if os.path.exists('stop'):
            os._exit(0)
        with open('beat', 'a') as file:
            file.write('x')
leave()
### reaper
import ctypes
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    hush()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    quietly(os.setsid)
    if os.fork() == 0:
        beat()
    time.sleep(60)
leave()
### by_killed_parent
if os.fork() == 0:
    hush()
    beat()
while not os.path.exists('beat'):
    time.sleep(0.005)
os.kill(os.getpid(), 9)
os._exit(3)
### by_crash
import ctypes
if os.fork() == 0:
    hush()
    beat()
while not os.path.exists('beat'):
    time.sleep(0.005)
ctypes.string_at(0)
### by_timeout
if os.fork() == 0:
    hush()
    beat()
time.sleep(60)
""",
    prelude=BEAT,
)


ENDS = {"by_timeout": ("timeout",), "by_crash": ("killed",), "by_killed_parent": ("killed", "error")}
"""At ``full``, the first process of an action ignores its own SIGKILL and reaches exit(3)."""


PROGRAM = "import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', 'open(\"made\", \"w\")'])"


def beats(workspace: Workspace, seconds: float) -> bool:
    """Whether a process writes within this time."""
    first = len(workspace.read("beat"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        if len(workspace.read("beat")) > first:
            return True
    return False


@pytest.mark.parametrize("attack", SURVIVORS, ids=attrgetter("name"))
def test_canary_survivor(attack: Attack) -> None:
    scene = Scene(os.getuid())
    with Workspace() as workspace:
        try:
            code = (
                attack.code
                if attack.name != "by_timeout"
                else attack.code.replace("time.sleep(60)\n", "leave()\n")
            )
            unconfined(code, scene, workspace)
            assert beats(workspace, 20)
        finally:
            (workspace.path / "stop").touch()
            scene.close()
            while beats(workspace, 0.1):
                pass


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attack", SURVIVORS, ids=attrgetter("name"))
def test_nobody_outlives_an_action(attack: Attack, level: str, sandboxes: Sandboxes) -> None:
    with sandboxes[level].open_workspace() as workspace:
        if attack.name.startswith("program") and not sandboxes[level].run(workspace, PROGRAM, LIMITS).files:
            pytest.skip("programs that an action starts run as another user here: docs/security.md")
        limits = wider(wall_s=1.0) if attack.name == "by_timeout" else LIMITS
        result = sandboxes[level].run(workspace, attack.code, limits)
        assert result.status in ENDS.get(attack.name, ("ok",)), result
        refused = (attack.name, level) == ("program_in_own_session", "landlock")
        assert {change.path for change in result.files} == (set() if refused else {"beat"}), result
        assert refused or not beats(workspace, 0.15)
