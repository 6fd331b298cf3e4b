"""Neighbours: attacks on another action that runs in the same sandbox."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from attacks.harness import LIMITS, Run, fill, printed_secret, table, wider
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.errors import WorkspaceError
from mappa_env.sandbox import Result, Sandbox
from mappa_env.workspace.workspace import Workspace

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
import glob, sys
for path in glob.glob('/dev/shm/*') + glob.glob('/tmp/*/*'):
    if not sys.prefix.startswith(path):  # where an interpreter under /tmp is mounted
        print('GOT', path)
""")


LOCKS = """
import fcntl, os, select, struct, sys
def shared():
    library = os.path.dirname(os.__file__)
    for path in ('/', '/usr', '/etc', '/etc/passwd', '/usr/lib', library, os.__file__, sys.executable):
        yield path, lambda: os.open(path, os.O_RDONLY)
    for name in ('null', 'full', 'random', 'urandom'):
        yield name, lambda: os.open('/dev/' + name, os.O_RDWR)
        yield name + ' to read', lambda: os.open('/dev/' + name, os.O_RDONLY)
    yield 'process', lambda: os.pidfd_open(os.getppid())
    yield 'event', lambda: os.eventfd(0)
    yield 'poll', lambda: os.dup(select.epoll().fileno())
    yield 'standard', lambda: os.dup(0)
def lock(kind):
    return struct.pack('hhqqi4x', kind, 0, 0, 0, 0)
kept = []
def attempt(command, value, file):
    try:
        if command == 'flock':
            fcntl.flock(file, value)
            return 'held'
        answer = fcntl.fcntl(file, command, lock(value))
        return struct.unpack('hhqqi4x', answer)[:4]
    except OSError as error:
        return error.errno
"""
SENDER = (
    LOCKS
    + """
import time
for name, opened in shared():
    for command, value in (('flock', fcntl.LOCK_EX | fcntl.LOCK_NB), (6, fcntl.F_WRLCK), (37, fcntl.F_WRLCK),
                           (6, fcntl.F_RDLCK), (37, fcntl.F_RDLCK)):
        try:
            kept.append(opened())
        except OSError:
            continue
        attempt(command, value, kept[-1])
open('pid', 'w').write(str(os.getpid()))
while not os.path.exists('stop'):
    time.sleep(0.01)
"""
)
RECEIVER = (
    LOCKS
    + """
for name, opened in shared():
    for command, value in (('flock', fcntl.LOCK_SH | fcntl.LOCK_NB), ('flock', fcntl.LOCK_EX | fcntl.LOCK_NB),
                           (5, fcntl.F_WRLCK), (36, fcntl.F_WRLCK), (5, fcntl.F_RDLCK), (36, fcntl.F_RDLCK),
                           (6, fcntl.F_WRLCK), (37, fcntl.F_WRLCK), (6, fcntl.F_RDLCK), (37, fcntl.F_RDLCK)):
        try:
            kept.append(opened())
        except OSError as error:
            print(name, error.errno)
            continue
        print(name, command, value, attempt(command, value, kept[-1]))
"""
)
"""Tries every lock on everything that two actions both see, and prints what it learns."""


@pytest.mark.parametrize("level", LEVELS)
def test_locks_tell_a_neighbour_nothing(level: str, sandboxes: Sandboxes) -> None:
    sandbox = sandboxes[level]
    with sandbox.open_workspace() as workspace:
        alone = sandbox.run(workspace, RECEIVER, LIMITS)
        with neighbour(sandbox, "", SENDER):
            beside = sandbox.run(workspace, RECEIVER, LIMITS)
    assert alone.status == "ok", alone
    assert alone.stdout.count("\n") > 100
    assert beside.stdout == alone.stdout


DESCRIPTORS = """
import array, os, socket, time
kept, sent = [], 0
try:
    while True:
        a, b = socket.socketpair()
        kept += [a, b]
        a.setblocking(False)
        for _ in range(8):
            a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 200))])
            sent += 200
except OSError:
    pass
open('pid', 'w').write(str(os.getpid()))
while not os.path.exists('stop'):
    time.sleep(0.01)
print(sent)
"""
"""Has as many descriptors on their way as the kernel allows a user with its limits."""


@pytest.mark.parametrize("level", LEVELS)
def test_descriptors_on_their_way_leave_room_for_a_neighbour(level: str, sandboxes: Sandboxes) -> None:
    """The kernel counts them by user, and every action starts with one that is sent."""
    sandbox = sandboxes[level]
    with neighbour(sandbox, "", DESCRIPTORS) as (_, _, results), sandbox.open_workspace() as workspace:
        beside = sandbox.run(workspace, "print(42)", LIMITS)
    assert (beside.status, beside.stdout) == ("ok", "42\n"), beside
    assert int(results[0].stdout) > 256, results


@contextmanager
def neighbour(
    sandbox: Sandbox, token: str, code: str = NEIGHBOUR
) -> Iterator[tuple[Workspace, dict[str, str], list[Result]]]:
    """Yield its workspace, its names for the attacks, and a list that gets its result after the block."""
    results: list[Result] = []
    code = code.replace("$token", token)
    with sandbox.open_workspace() as workspace:
        work = threading.Thread(
            target=lambda: results.append(sandbox.run(workspace, code, wider(wall_s=120, cpu_s=60)))
        )
        root = workspace.storage.root
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
                assert not printed_secret(Run(scene, result, home)), (attack.name, result)
        (result,) = results
        assert (result.status, result.stdout.splitlines()[1]) == ("ok", f"alive {os.nice(0)} 3"), result
        assert {change.path for change in result.files} == {"pid", "secret.txt", "stop"}
    finally:
        scene.close()
