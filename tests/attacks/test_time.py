"""Time: spin, sleep, ignore signals, stop, and hang wherever code can hang.

The attacks of a level run concurrently, so that their time limits elapse together.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

import pytest

from attacks.harness import LIMITS, Attack, table, wider
from attacks.levels import LEVELS, Sandboxes
from mappa_env.sandbox import Result, Sandbox

WALL = wider(wall_s=6.0, memory_mb=1024)
CPU = wider(cpu_s=1.0, wall_s=60.0)

ATTACKS = [
    *table(
        """
### sleep
time.sleep(3600)
### sleep_in_child
if os.fork() == 0:
    time.sleep(3600)
os.wait()
### deaf
for number in set(signal.valid_signals()) - {9, 19}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True:
    time.sleep(1)
### restarted_by_handlers
def again(*_):
    while True:
        time.sleep(1)
for number in (1, 2, 10, 12, 14, 15, 24):
    signal.signal(number, again)
again()
### stopped
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(3600)
### stopped_child
if (pid := os.fork()) == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(pid, 0)
### deadlock
import threading
lock = threading.Lock()
lock.acquire()
lock.acquire()
### pipe_that_never_speaks
os.read(os.pipe()[0], 1)
### thread_left_running
import threading
threading.Thread(target=time.sleep, args=(3600,)).start()
### exit_handler
import atexit
atexit.register(time.sleep, 3600)
### exit_refused
try:
    time.sleep(3600)
finally:
    while True:
        time.sleep(1)
### text_of_error
class Slow(Exception):
    def __str__(self):
        time.sleep(3600)
raise Slow
### text_of_exit
class Slow:
    def __str__(self):
        time.sleep(3600)
sys.exit(Slow())
### flush
class Slow:
    def write(self, text): pass
    def flush(self): time.sleep(3600)
sys.stdout = Slow()
### destructor
class Slow:
    def __del__(self):
        time.sleep(3600)
x = Slow()
del x
### debugger
breakpoint.__self__
sys.breakpointhook = lambda: time.sleep(3600)
breakpoint()
### program
import subprocess
subprocess.run(['/bin/sh', '-c', 'trap "" TERM HUP INT; sleep 3600'])
### timer_storm
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while True:
    time.sleep(0.5)
### relay
while True:
    if os.fork():
        os.wait()
        os._exit(0)
    time.sleep(0.2)  # each link waits for the next: 30 in 6 s, of 64 allowed processes
""",
        prelude="import os, signal, sys, time\nprint('begun', flush=True)\n",
        limits=WALL,
    ),
    *table(
        """
### spin
while True:
    pass
### spin_deaf
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass
### spin_without_the_interpreter
10 ** (10 ** 9)
### spin_in_children
for _ in range(2):
    if os.fork() == 0:
        while True:
            pass
while True:
    time.sleep(1)
### spin_in_relay
while True:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    if os.fork():
        os.wait()
        os._exit(0)
### spin_in_orphans
def spin():
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
if os.fork() == 0:
    while os.fork() == 0:
        spin()
    os._exit(0)
time.sleep(100)
### spin_until_told
signal.signal(signal.SIGXCPU, lambda *_: os._exit(0))
while True:
    pass
### spin_until_told_early
import resource
signal.signal(signal.SIGXCPU, lambda *_: None)
resource.setrlimit(resource.RLIMIT_CPU, (1, resource.getrlimit(resource.RLIMIT_CPU)[1]))
while time.process_time() < 1.5:
    pass
os._exit(0)
### spin_in_children_that_nobody_waits_for
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(6):
    if os.fork() == 0:
        while time.process_time() < 0.6:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:  # it has ended
        pass
os._exit(0)
### spin_in_threads
import threading
for _ in range(3):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
""",
        prelude="import os, signal, sys, time\nprint('begun', flush=True)\n",
        limits=CPU,
    ),
]


@functools.cache
def outcomes(sandbox: Sandbox) -> Mapping[str, Result]:
    """Start the sleeping attacks first, because spinning ones would delay their start."""

    def run(attack: Attack) -> Result:
        with sandbox.open_workspace() as workspace:
            return sandbox.run(workspace, attack.code, attack.limits)

    found: dict[str, Result] = {}
    for limits in (WALL, CPU):
        group = [attack for attack in ATTACKS if attack.limits == limits]
        with ThreadPoolExecutor(len(group)) as threads:
            found.update(zip(map(attrgetter("name"), group), threads.map(run, group), strict=True))
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attack", ATTACKS, ids=attrgetter("name"))
def test_ends_in_time(attack: Attack, level: str, sandboxes: Sandboxes) -> None:
    """No attack ends by itself, so the sandbox must have ended it. Its output is kept."""
    result = outcomes(sandboxes[level])[attack.name]
    assert (result.status, result.stdout) == ("timeout", "begun\n"), result
    assert result.wall_s < attack.limits.wall_s + 20


@pytest.mark.parametrize("level", LEVELS)
def test_the_sandbox_works_on(level: str, sandboxes: Sandboxes) -> None:
    outcomes(sandboxes[level])
    with sandboxes[level].open_workspace() as workspace:
        after = sandboxes[level].run(workspace, "print(6 * 7)", LIMITS)
    assert (after.status, after.stdout) == ("ok", "42\n"), after
