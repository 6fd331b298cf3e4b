"""Kernel: every dangerous family of system calls, foreign calling conventions, regained privileges.

Calls get harmless arguments: what counts is whether they reach the kernel's code. EPERM, EACCES or ENOSYS
mean refusal; any other answer, even another error, means that the code behind the call has run.
"""

from __future__ import annotations

import os
import platform

import pytest

from attacks.harness import LIBC, LIMITS, Attack, Run, battery, fill, table, unconfined
from attacks.levels import LEVELS, Sandboxes
from attacks.numbers import NUMBERS
from attacks.scene import Scene
from mappa_env.workspace.workspace import Workspace

REACH = {
    "acct": "b'/nowhere'",
    "add_key": "b'user', b'$unique', b'x', 1, -2",
    "bpf": "0, struct.pack('5I', 2, 4, 4, 1, 0) + bytes(108), 128",
    "chroot": "b'.'",
    "clock_settime": "99, bytes(16)",
    "delete_module": "b'no_such_module', 0",
    "fanotify_init": "0, 0",
    "finit_module": "-1, b'', 0",
    "fsopen": "b'tmpfs', 0",
    "fspick": "-100, b'/', 0",
    "init_module": "b'', 0, b''",
    "io_setup": "1, bytes(8)",
    "io_uring_setup": "4, bytes(120)",
    "ioperm": "0x80, 1, 0",
    "iopl": "0",
    "ioprio_set": "1, 0, 0x2000",
    "kcmp": "os.getpid(), os.getpid(), 0, 0, 0",
    "kexec_load": "0, 0, 0, 0xdead",
    "keyctl": "0, -3, 0",
    "listmount": "struct.pack('IIQQ', 24, 0, 2**64 - 1, 0), bytes(64), 8, 0",
    "memfd_create": "b'x', 0",
    "memfd_secret": "0",
    "migrate_pages": "0, 0, 0, 0",
    "modify_ldt": "0, bytes(64), 0",
    "mount": "b'none', b'/nowhere', b'tmpfs', 0, 0",
    "mount_setattr": "-100, b'/nowhere', 0, bytes(32), 32",
    "move_mount": "-100, b'/nowhere', -100, b'/nowhere', 0",
    "move_pages": "0, 0, 0, 0, 0, 0",
    "name_to_handle_at": "-100, b'.', struct.pack('Ii', 128, 0) + bytes(128), bytes(8), 0",
    "open_by_handle_at": "-100, struct.pack('Ii', 8, 1) + bytes(128), 0",
    "open_tree": "-100, b'/', 1",
    "perf_event_open": "bytes(128), 0, -1, -1, 0",
    "personality": "0x40000",
    "pidfd_getfd": "syscall($nr_pidfd_open, os.getpid(), 0), 0, 0",
    "pivot_root": "b'/nowhere', b'/nowhere'",
    "process_madvise": "syscall($nr_pidfd_open, os.getpid(), 0), 0, 0, 20, 0",
    "process_vm_readv": "os.getpid(), 0, 0, 0, 0, 0",
    "process_vm_writev": "os.getpid(), 0, 0, 0, 0, 0",
    "ptrace": "0x4200, 0, 0, 0",
    "quotactl": "0x800007 << 8, b'/nowhere', 0, 0",
    "reboot": "0, 0, 0, 0",
    "request_key": "b'user', b'$unique', 0, 0",
    "seccomp": "1, 8, 0",
    "setdomainname": "b'x', -1",
    "sethostname": "b'x', -1",
    "setns": "-1, 0",
    "settimeofday": "0, 0",
    "splice": "-1, 0, -1, 0, 1, 0",
    "swapoff": "b'/nowhere'",
    "swapon": "b'/nowhere', 0",
    "syslog": "10, 0, 0",
    "tee": "-1, -1, 1, 0",
    "umount2": "b'/nowhere', 0",
    "userfaultfd": "1",
    "vmsplice": "-1, 0, 0, 0",
}
"""Call -> arguments."""

NEW = {
    "mnt": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}


def became_root(run: Run) -> bool:
    """Its new files belong to the host's root, unlike before."""
    return run.owner("after") == 0 != run.owner("before")


CALLS = {
    **{name: f"reach($nr_{name}, {arguments})" for name, arguments in REACH.items() if NUMBERS[name] >= 0},
    **{f"unshare_{name}": f"reach($nr_unshare, {flag})" for name, flag in NEW.items()},
    **{f"clone_{name}": f"reach($nr_clone, {flag} | 17, 0, 0, 0, 0)" for name, flag in NEW.items()},
}
BATCH = f"""{LIBC}
import struct
for name, source in {CALLS}.items():
    print(name, end=' ', flush=True)
    if (child := os.fork()) == 0:
        exec(source)
        os._exit(0)
    os.waitpid(child, 0)
    print(flush=True)
"""
"""Makes all calls in one action, each in its own child."""


def answers(run: Run) -> dict[str, str]:
    """Call -> its printed result."""
    return dict(line.partition(" ")[::2] for line in run.stdout.splitlines() if line)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_canary_calls_reach_the_kernel() -> None:
    scene = Scene(os.getuid())
    with Workspace() as workspace:
        found = answers(unconfined(BATCH, scene, workspace))
    scene.close()
    assert {name for name in CALLS if "GOT" not in found[name] and "ABSENT" not in found[name]} == set()


@pytest.mark.parametrize("level", LEVELS)
def test_calls_do_not_reach_the_kernel(level: str, sandboxes: Sandboxes) -> None:
    scene = Scene(sandboxes.actor(level))
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, fill(BATCH, scene), LIMITS)
        found = answers(Run(scene, result, workspace))
    scene.close()
    assert set(CALLS) == set(found), result
    assert {name: answer for name, answer in found.items() if "GOT" in answer} == {}


ATTACKS = [
    *table(
        """
### clone_as_sibling
if reach($nr_clone, 0x8000 | 17, 0, 0, 0, 0) == 0:
    os._exit(0)
### clone3
import struct
if reach($nr_clone3, struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64) == 0:
    os._exit(0)
### new_privileges
if _libc.prctl(39, 0, 0, 0, 0) != 1:
    print('GOT')  # a set-uid program would raise its own
### unfiltered
if _libc.prctl(21, 0, 0, 0, 0) == 0:
    print('GOT')
### capabilities
import struct
header, data = struct.pack('Ii', 0x20080522, 0), bytearray(24)
held = (ctypes.c_char * 24).from_buffer(data)
syscall($nr_capset, header, b'\\xff' * 24)
syscall($nr_capget, header, held)
if any(data):
    print('GOT', data)
### pin_to_processor
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
print('GOT')
### real_time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print('GOT')
### less_nice
os.nice(-5)
print('GOT')
### lock_memory
if _libc.mlockall(1) == 0:
    print('GOT')
### type_into_terminal
import fcntl
try:
    fcntl.ioctl(0, 0x5412, b'x')
except OSError as error:
    print('EPERM' if error.errno == 1 else 'GOT')
### immutable_file
import fcntl
fcntl.ioctl(open('x', 'w'), 0x40086602, (0x40).to_bytes(8, 'little'))
print('GOT')
### file_lease
import fcntl
open('x', 'w')
fcntl.fcntl(open('x'), 1024, 0)
print('GOT')
### folder_notice
import fcntl
fcntl.fcntl(os.open('.', os.O_RDONLY), 1026, 2)
print('GOT')
### namespace_of_parent
import fcntl
for name in ('pid', 'user'):
    try:
        print('GOT', fcntl.ioctl(os.open('/proc/self/ns/' + name, os.O_RDONLY), 0xb701))
    except OSError as error:
        print(error)
### namespace_by_file
reach($nr_setns, os.open('/proc/self/ns/uts', os.O_RDONLY), 0)
### namespace_by_program
import subprocess
done = subprocess.run(['unshare', '--user', '--mount', 'echo', 'in'], capture_output=True, text=True)
print('GOT' if done.stdout == 'in\\n' else '')
### device_node
import stat
os.mknod('zero', stat.S_IFCHR | 0o600, os.makedev(1, 5))
print('GOT', open('zero', 'rb').read(4))
""",
        prelude=LIBC,
    ),
    *table(
        """
### set_uid_root
try:
    os.chmod('.', 0o777)
    os.seteuid(65534)
except OSError:
    pass
open('before', 'w')
try:
    os.setresuid(0, 0, 0)
except OSError:
    pass
open('after', 'w')
""",
        prelude="import os\n",
        got=became_root,
    ),
    Attack("set_groups", "import os\nos.setgroups([0])\nprint('GOT')"),
    Attack(
        "capabilities_by_program",
        LIBC
        + """
import subprocess, sys
code = 'import os; os.chown("made", 12345, 12345); print("GOT")'
open('made', 'w')
print(subprocess.run([sys.executable, '-S', '-c', code], capture_output=True, text=True).stdout)
""",
    ),
]

if platform.machine() == "x86_64":
    ATTACKS += table(
        """
### calls_of_32_bit_programs
import mmap
page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
page.write(bytes.fromhex('b814000000cd80c3'))  # mov eax, 20 (getpid); int 0x80; ret
getpid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print('GOT' if getpid() == os.getpid() else '')
### calls_of_x32_programs
reach(0x40000000 + 39)
""",
        prelude=LIBC,
    )

test_canary, test_contained = battery(ATTACKS)
