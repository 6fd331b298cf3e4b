"""Exhaustion of processes, threads, descriptors and other limited resources."""

from __future__ import annotations

from attacks.harness import LIBC, Run, battery, table, wider

FEW = wider(processes=12, wall_s=60.0)
_BOMB = "it would take the machine with it; how much it starts is written in it"


def many(run: Run) -> bool:
    """More than four times the limit were alive at once."""
    return run.stdout.count("alive") > 4 * FEW.processes


ATTACKS = [
    *table(
        """
### processes
try:
    for _ in range(60):
        if os.fork() == 0:
            live()
except OSError:
    pass
open_gate()
### processes_in_processes
for _ in range(6):
    try:
        os.fork()
    except OSError:
        pass
if os.getpid() != first:
    live()
open_gate()
### orphans
try:
    for _ in range(60):
        if os.fork() == 0:
            try:
                if os.fork() == 0:
                    live()
            finally:
                os._exit(0)
        os.wait()
except OSError:
    pass
open_gate()
### programs
import subprocess
try:
    for _ in range(60):
        subprocess.Popen(['/bin/sh', '-c', 'read x; echo alive'], stdin=reader)
except OSError:
    pass
open_gate()
### threads
import threading
try:
    for _ in range(60):
        threading.Thread(target=wait, daemon=True).start()
except RuntimeError:
    pass
open_gate()
### threads_in_processes
import threading
for _ in range(6):
    if os.fork() == 0:
        try:
            for _ in range(10):
                threading.Thread(target=wait, daemon=True).start()
        except RuntimeError:
            pass
        open_gate()
open_gate()
### bomb_by_shell
import subprocess
subprocess.run(['/bin/sh', '-c', 'f() { f | f & }; f'])
time.sleep(1)
if os.path.exists('/proc/self'):
    print('alive' * len([p for p in os.listdir('/proc') if p.isdigit()]))
### zombies
children = 0
try:
    for children in range(60):
        if os.fork() == 0:
            os._exit(0)
except OSError:
    pass
time.sleep(1)
print('alive ' * children)
""",
        prelude="""
import os, time
first = os.getpid()
reader, writer = os.pipe()
def wait():
    os.read(reader, 1)
    os.write(1, b'alive ')
def live():
    os.close(writer)
    wait()
    os._exit(0)
def open_gate():
    time.sleep(1)
    os.close(writer)
    time.sleep(0.2)
    os._exit(0)
""",
        limits=FEW,
        got=many,
        unproven=_BOMB,
    ),
    *table(
        """
### descriptors
held = [os.open('/dev/null', os.O_RDONLY) for _ in range(500)]
print('GOT', len(held))
### descriptors_after_raising_the_limit
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (800, 800))
held = [os.open('/dev/null', os.O_RDONLY) for _ in range(500)]
print('GOT', len(held))
### inotify_watches
watch = _libc.inotify_init()
if _libc.inotify_add_watch(watch, b'.', 2) >= 0:
    print('GOT')
### pseudo_terminals
try:
    print('GOT', os.openpty())
except OSError as error:
    print('ABSENT')
### semaphores
if (x := _libc.semget(0, 200, 0o1600)) >= 0:
    print('GOT')
    _libc.semctl(x, 0, 0)
### keys
for number in range(50):
    reach($nr_add_key, b'user', b'$unique%d' % number, b'x' * 1000, 1000, -1)
""",
        prelude=LIBC,
    ),
]

test_canary, test_contained = battery(ATTACKS)
