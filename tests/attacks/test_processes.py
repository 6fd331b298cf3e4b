"""Processes: signal, stop, inspect or slow down others; live on after the action."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

import psutil
import pytest

from attacks.harness import LIBC, LIMITS, Attack, Run, battery, fill, table, told, unconfined, wider
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.errors import WorkspaceError
from mappa_env.sandbox import Result, Sandbox
from mappa_env.workspace import Workspace


def harmed(run: Run) -> bool:
    """The decoy is dead, stopped, slowed down, limited or moved."""
    pid = run.scene.decoy.pid
    try:
        process = psutil.Process(pid)
        time.sleep(0.002)  # a signal takes a moment
        return (
            process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
            or process.nice() != os.getpriority(os.PRIO_PROCESS, 0)
            or process.ionice() != psutil.Process().ionice()
            or limits(pid) != limits(os.getpid())
            or os.sched_getaffinity(pid) != os.sched_getaffinity(0)
            or os.sched_getscheduler(pid) != os.sched_getscheduler(0)
        )
    except (psutil.NoSuchProcess, ProcessLookupError):
        return True


def limits(pid: int) -> str:
    return Path(f"/proc/{pid}/limits").read_text()


ATTACKS = [
    *table("""
### kill
os.kill($decoy, 9)
### terminate
os.kill($decoy, 15)
### stop
os.kill($decoy, 19)
### kill_group
os.killpg($decoy, 9)
### kill_by_descriptor
import signal
signal.pidfd_send_signal(os.pidfd_open($decoy), 9)
### kill_thread
syscall($nr_tkill, $decoy, 9)
### kill_thread_of_group
syscall($nr_tgkill, $decoy, $decoy, 9)
### kill_by_queue
import struct
syscall($nr_rt_sigqueueinfo, $decoy, 15, struct.pack('3i', 15, 0, -1) + bytes(116))
### kill_thread_by_queue
import struct
syscall($nr_rt_tgsigqueueinfo, $decoy, $decoy, 15, struct.pack('3i', 15, 0, -1) + bytes(116))
### kill_by_notice
import fcntl
reader, writer = os.pipe()
fcntl.fcntl(reader, 8, $decoy)  # F_SETOWN
fcntl.fcntl(reader, 10, 15)  # F_SETSIG
fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
os.write(writer, b'x')
### kill_by_folder_notice
import fcntl
folder = os.open('.', os.O_RDONLY)
fcntl.fcntl(folder, 8, $decoy)
fcntl.fcntl(folder, 10, 15)
fcntl.fcntl(folder, 1026, 4)  # F_NOTIFY, DN_CREATE
open('x', 'w')
### kill_by_program
import subprocess
subprocess.run(['/bin/sh', '-c', 'kill -9 $decoy'])
### kill_in_child
if os.fork() == 0:
    os.kill($decoy, 9)
os.wait()
### kill_by_debugger_exit
syscall($nr_ptrace, 0x4206, $decoy, 0, 0x100000)  # PTRACE_SEIZE with PTRACE_O_EXITKILL
### limit
import resource
resource.prlimit($decoy, resource.RLIMIT_NOFILE, (7, 7))
### slow_down
os.setpriority(os.PRIO_PROCESS, $decoy, 7)
### slow_down_group
os.setpriority(os.PRIO_PGRP, $decoy, 7)
### slow_down_disk
syscall($nr_ioprio_set, 1, $decoy, 3 << 13)
### slow_down_to_idle
os.sched_setscheduler($decoy, os.SCHED_IDLE, os.sched_param(0))
### pin
os.sched_setaffinity($decoy, list(os.sched_getaffinity($decoy))[:1])
""", prelude=LIBC, got=harmed),
    *table("""
### read_memory
import struct
for line in open('/proc/$decoy/maps'):
    if '[stack]' in line:
        start, end = (int(x, 16) for x in line.split()[0].split('-'))
into = ctypes.create_string_buffer(end - start)
local, remote = struct.pack('2Q', ctypes.addressof(into), len(into)), struct.pack('2Q', start, end - start)
print(syscall($nr_process_vm_readv, $decoy, local, 1, remote, 1, 0), into.raw)
### read_memory_file
with open('/proc/$decoy/maps') as maps, open('/proc/$decoy/mem', 'rb', 0) as memory:
    for line in maps:
        if '[stack]' in line:
            start, end = (int(x, 16) for x in line.split()[0].split('-'))
            memory.seek(start)
            print(memory.read(end - start))
### read_environment
print(open('/proc/$decoy/environ', 'rb').read())
### take_descriptor
print('GOT', os.fstat(syscall($nr_pidfd_getfd, os.pidfd_open($decoy), 0, 0)))
### debug
if syscall($nr_ptrace, 0x4206, $decoy, 0, 0) == 0:
    print('GOT')
### release_memory
print('GOT' if syscall($nr_process_madvise, os.pidfd_open($decoy), 0, 0, 20, 0) != -1 else '')
### compare
if syscall($nr_kcmp, $decoy, $decoy, 0, 0, 0) == 0:
    print('GOT')
### move_memory
print('GOT' if syscall($nr_move_pages, $decoy, 0, 0, 0, 0, 0) >= 0 else '')
### see_by_signal
try:
    os.kill($decoy, 0)
    print('GOT')
except PermissionError:
    print('GOT, but no more')
### see_by_group
print('GOT', os.getpgid($decoy), os.getsid($decoy))
### see_by_priority
print('GOT', os.getpriority(os.PRIO_PROCESS, $decoy))
### see_by_processors
print('GOT', os.sched_getaffinity($decoy))
### see_by_descriptor
print('GOT', os.pidfd_open($decoy))
### see_by_proc
print('GOT', os.stat('/proc/$decoy'))
""", prelude=LIBC),
    *table("""
### kill_all
import os
os.kill(-1, 9)
### kill_server
import os
if os.getppid() > 1:
    os.kill(os.getppid(), 9)
    print('GOT')
### stop_server
import os
if os.getppid() > 1:
    os.kill(os.getppid(), 19)
    print('GOT')
### kill_neighbourhood
import os
for pid in range(max(os.getpid() - 400, 2), os.getpid() + 40):
    if pid != os.getpid():
        try:
            os.kill(pid, 9)
            print('GOT', pid)
        except (ProcessLookupError, PermissionError):
            pass
### slow_down_user
import os
os.setpriority(os.PRIO_USER, os.getuid(), 3)
""", unproven="it would hit the tests themselves; that signals get through is proven above"),
]  # fmt: skip

test_canary, test_contained = battery(ATTACKS)


# -- while another action runs ----------------------------------------------------------------------------

NEIGHBOUR = """
import os, time
secret = 'token-' + 'of-the-neighbour' + str(os.getpid())
open('secret.txt', 'w').write('$token')
print(os.getpid(), flush=True)
open('pid', 'w').write(str(os.getpid()))
while not os.path.exists('stop'):
    time.sleep(0.01)
print('alive', os.getpriority(os.PRIO_PROCESS, 0), len(os.listdir('.')))
"""
"""Runs until the host writes ``stop``."""

ON_NEIGHBOUR = table("""
### neighbour_kill
import os
for pid in {$neighbour, *range(2, 60)} - {os.getpid()}:
    try:
        os.kill(pid, 9)
        print('GOT', pid)
    except (ProcessLookupError, PermissionError):
        pass
### neighbour_kill_all
import os
os.kill(-1, 9)
### neighbour_slow_down
import os
for kind, who in ((os.PRIO_PROCESS, $neighbour), (os.PRIO_USER, os.getuid()), (os.PRIO_USER, 0)):
    try:
        os.setpriority(kind, who, 9)
    except OSError:
        pass
### neighbour_read
for path in ('$place/secret.txt', '/proc/$neighbour/cwd/secret.txt', '../../ws/secret.txt'):
    try:
        print(open(path).read())
    except OSError:
        pass
### neighbour_write
import os
for folder in ('$place', '/proc/$neighbour/cwd', '/proc/$neighbour/root$place'):
    try:
        open(folder + '/planted', 'w')
    except OSError:
        pass
### neighbour_memory
import ctypes, os
for path in ('/proc/$neighbour/maps', '/proc/$neighbour/mem', '/proc/$neighbour/environ'):
    if $neighbour != os.getpid():
        print('GOT', open(path, 'rb').read(20))
### neighbour_shared_memory
import glob
for path in glob.glob('/dev/shm/*') + glob.glob('/tmp/*/*'):
    print('GOT', path)
""")


@contextmanager
def neighbour(sandbox: Sandbox, token: str) -> Iterator[tuple[Workspace, dict[str, str], list[Result]]]:
    """Its workspace, how the attacks may call it, and its result once the block is left."""
    results: list[Result] = []
    code = NEIGHBOUR.replace("$token", token)
    with sandbox.open_workspace() as workspace:
        work = threading.Thread(
            target=lambda: results.append(sandbox.run(workspace, code, wider(wall_s=120, cpu_s=60)))
        )
        root = workspace.home.root
        work.start()
        try:
            pid = wait_for(lambda: workspace.read("pid").decode())
            place = "/nowhere" if isinstance(root, int) else str(root)
            yield workspace, {"$neighbour": pid, "$place": place}, results
        finally:
            path = os.path.join(f"/proc/self/fd/{root}" if isinstance(root, int) else root, "stop")
            with open(path, "w"):
                work.join(60)


def wait_for(found: Callable[[], str]) -> str:
    """The first answer that is neither empty nor an error, within a minute."""
    for _ in range(6000):
        with suppress(WorkspaceError):
            if answer := found():
                return answer
        time.sleep(0.01)
    raise TimeoutError("nothing came of it within a minute")


@pytest.mark.parametrize("level", LEVELS)
def test_a_running_neighbour_is_out_of_reach(level: str, sandboxes: Sandboxes) -> None:
    scene = Scene(sandboxes.actor(level))
    try:
        with neighbour(sandboxes[level], scene.token) as (home, words, results):
            for attack in ON_NEIGHBOUR:
                code = fill(
                    functools.reduce(lambda code, word: code.replace(*word), words.items(), attack.code),
                    scene,
                )
                with sandboxes[level].open_workspace() as workspace:
                    result = sandboxes[level].run(workspace, code, LIMITS)
                assert not told(Run(scene, result, home)), (attack.name, result)
        (result,) = results
        assert (result.status, result.stdout.splitlines()[1]) == ("ok", f"alive {os.nice(0)} 3"), result
        assert {change.path for change in result.files} == {"pid", "secret.txt", "stop"}
    finally:
        scene.close()


# -- after the action -------------------------------------------------------------------------------------

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
def leave():
    for _ in range(400):
        if os.path.exists('beat'):
            break
        time.sleep(0.005)
    sys.stdout.flush()
    os._exit(0)
"""
"""A survivor writes on and on into ``beat``, until the host writes ``stop``."""

SURVIVORS = table("""
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
subprocess.Popen(['/bin/sh', '-c', 'while [ ! -e stop ]; do echo x >> beat; sleep 0.02; done'],
                 stdin=-3, stdout=-3, stderr=-3)
leave()
### program_in_own_session
try:
    subprocess.Popen(['/bin/sh', '-c', 'while [ ! -e stop ]; do echo x >> beat; sleep 0.02; done'],
                     stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
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
""", prelude=BEAT)  # fmt: skip


ENDS = {"by_timeout": ("timeout",), "by_crash": ("killed",), "by_killed_parent": ("killed", "error")}
"""At ``full`` the first process of an action is deaf to its own SIGKILL, and goes on to exit(3)."""


def beats(workspace: Workspace, seconds: float) -> bool:
    """Whether anybody writes within this time."""
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
        limits = wider(wall_s=1.0) if attack.name == "by_timeout" else LIMITS
        result = sandboxes[level].run(workspace, attack.code, limits)
        assert result.status in ENDS.get(attack.name, ("ok",)), result
        if "beat" in {change.path for change in result.files}:
            assert not beats(workspace, 0.15)
