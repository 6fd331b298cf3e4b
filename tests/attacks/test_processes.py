"""Processes: signal, stop, inspect or slow down other processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from attacks.harness import LIBC, Run, battery, table

SIGNAL_S = 0.2
"""Seconds that a signal may take to reach the decoy on a busy machine."""


def harmed(run: Run) -> bool:
    """The decoy is dead, stopped, slowed down, limited or moved, at once or soon after."""
    deadline = time.monotonic() + SIGNAL_S
    while not changed(run.scene.decoy.pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def changed(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
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
    *table(
        """
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
""",
        prelude=LIBC,
        got=harmed,
    ),
    *table(
        """
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
""",
        prelude=LIBC,
    ),
    *table(
        """
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
""",
        unproven="it would hit the tests themselves; other attacks prove that signals arrive",
    ),
]

test_canary, test_contained = battery(ATTACKS)
