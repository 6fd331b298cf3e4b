"""The system call filter: the assembled program against the policy, and installation in child processes."""

import errno
import json
import platform
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mappa_env
from mappa_env.sandbox.local.inside import seccomp
from mappa_env.sandbox.local.inside import syscall_policy as policy
from mappa_env.sandbox.local.inside.syscall_numbers import NUMBERS

LEVELS: tuple[policy.Level, ...] = ("full", "landlock")
MACHINES = ("x86_64", "aarch64")
PROGRAMS = {(m, level): seccomp.build(level, m) for m in MACHINES for level in LEVELS}
SIZE = 100 << 20
LISTENED = {
    (m, level): seccomp.asking_from(seccomp.build(level, m, listener=True), SIZE)
    for m in MACHINES
    for level in LEVELS
}
LOCAL = Path(mappa_env.__file__).parent / "sandbox" / "local"
DEADLINE_S = 120.0

here = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in MACHINES, reason="no filter for this machine"
)

# Calls that known escapes and exploits use.
DANGEROUS = """
bpf perf_event_open ptrace process_vm_readv process_vm_writev userfaultfd io_uring_setup keyctl
add_key request_key mount umount2 unshare setns pivot_root chroot open_tree move_mount fsopen
fsmount mount_setattr kexec_load init_module finit_module delete_module reboot swapon
open_by_handle_at name_to_handle_at mknod mknodat socket connect bind setuid setgid setresuid
setgroups capset personality memfd_create memfd_secret pidfd_getfd process_madvise kcmp vmsplice
seccomp landlock_restrict_self settimeofday clock_settime sched_setaffinity sched_setscheduler
shmget msgget semget mq_open fanotify_init modify_ldt iopl quotactl acct syslog sethostname clone3
"""


def interpret(program: bytes, data: bytes) -> int:
    """The kernel's verdict on one struct seccomp_data (classic BPF, only the instructions in use)."""
    instructions = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:  # every jump is forward, so this ends
        code, if_true, if_false, operand = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x05:
            at += operand
        elif code == 0x15:
            at += if_true if accumulator == operand else if_false
        elif code == 0x35:
            at += if_true if accumulator >= operand else if_false
        elif code == 0x06:
            return operand
        else:
            raise AssertionError(f"instruction {code:#x} at {at - 1}")


def expected(machine: str, level: policy.Level, number: int, args: tuple[int, ...]) -> int:
    names = [name for name, value in NUMBERS[machine].items() if value == number]
    if not names or names[0] in policy.MISSING:
        return seccomp.NO_SUCH_CALL
    (name,) = names
    if name in policy.allowed(level):
        return seccomp.ALLOW
    checks = policy.CHECKED.get(name)
    if checks is None or not all(matches(check, args) for check in checks):
        return seccomp.DENY
    return seccomp.ALLOW


def matches(test: policy.Check | policy.Ask, args: tuple[int, ...]) -> bool:
    if not test.values:
        return args[test.arg] >= SIZE
    return (args[test.arg] & 0xFFFFFFFF) & test.mask in test.values


def asked(
    machine: str,
    level: policy.Level,
    number: int,
    args: tuple[int, ...] = (0,) * 6,
    *,
    listener: bool = False,
) -> int:
    data = struct.pack("<IIQ6Q", number, seccomp.AUDIT_ARCH[machine], 0, *args)
    return interpret((LISTENED if listener else PROGRAMS)[machine, level], data)


def test_the_filter_makes_up_for_an_old_landlock() -> None:
    """Landlock governs truncation since ABI 3 and signals since ABI 6; at full, namespaces confine both."""
    assert policy.allowed("landlock") - policy.allowed("landlock", 5) >= {"kill", "tgkill", "rt_sigqueueinfo"}
    assert policy.allowed("landlock", 5) - policy.allowed("landlock", 2) == {"truncate"}
    assert policy.allowed("full", 1) == policy.allowed("full")
    assert seccomp.build("landlock", abi=2) != seccomp.build("landlock", abi=5) != seccomp.build("landlock")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_gets_the_policys_verdict(machine: str, level: policy.Level) -> None:
    for number in range(600):
        assert asked(machine, level, number) == expected(machine, level, number, (0,) * 6), number


_CHECKED_VALUES = sorted({v for checks in policy.CHECKED.values() for check in checks for v in check.values})
_words = st.one_of(
    st.sampled_from(_CHECKED_VALUES),
    st.integers(0, 63).map(lambda bit: 1 << bit),
    st.integers(0, 2**64 - 1),
    st.sampled_from([SIZE - 1, SIZE, SIZE + 1, 1 << 32]),
    st.sampled_from(_CHECKED_VALUES).map(lambda value: value | 1 << 40),
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(MACHINES),
    st.sampled_from(LEVELS),
    st.one_of(st.sampled_from(sorted(policy.CHECKED)), st.integers(0, 2**32 - 1), st.integers(0, 520)),
    st.tuples(*[_words] * 6),
)
def test_numbers_and_arguments_get_the_policys_verdict(
    machine: str, level: policy.Level, call: int | str, args: tuple[int, ...]
) -> None:
    number = NUMBERS[machine][call] if isinstance(call, str) else call
    verdict = expected(machine, level, number, args)
    assert asked(machine, level, number, args) == verdict
    for name, ask in policy.ASKED.items():
        if verdict == seccomp.ALLOW and NUMBERS[machine][name] == number and matches(ask, args):
            verdict = seccomp.NOTIFY
    assert asked(machine, level, number, args, listener=True) == verdict


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_any_other_architecture_is_killed(arch: int, number: int) -> None:
    for (machine, _), program in PROGRAMS.items():
        if arch != seccomp.AUDIT_ARCH[machine]:
            data = struct.pack("<IIQ6Q", number, arch, 0, *(0,) * 6)
            assert interpret(program, data) == seccomp.KILL_PROCESS


def test_the_second_call_table_of_x86_64_does_not_exist() -> None:
    for number in (*range(600), 0x3FFFFFFF, 0xBFFFFFFF):
        assert asked("x86_64", "full", 0x40000000 + number) == seccomp.NO_SUCH_CALL


def test_the_policy_names_each_known_call_once() -> None:
    known = set(NUMBERS["x86_64"]) | set(NUMBERS["aarch64"])
    lists = [g.calls for g in (*policy.ALLOWED, *policy.REFUSED)] + [set(policy.CHECKED), policy.MISSING]
    names = [name for calls in lists for name in calls]
    assert set(names) <= known
    assert len(names) == len(set(names))
    assert policy.allowed("landlock") < policy.allowed("full")
    taken = {name for group in policy.REFUSED_AT_LANDLOCK for name in group.calls}
    assert policy.allowed("full") - policy.allowed("landlock") == taken


@pytest.mark.parametrize("level", LEVELS)
def test_no_call_that_ever_broke_a_sandbox_is_allowed(level: policy.Level) -> None:
    """A deny list as a second check: only an error in both lists would go unnoticed."""
    dangerous = set(DANGEROUS.split())
    assert dangerous <= set(NUMBERS["x86_64"])
    assert not dangerous & (policy.allowed(level) | set(policy.CHECKED))


def test_unknown_architectures_and_levels_are_refused_by_name() -> None:
    with pytest.raises(OSError, match="riscv64"):
        seccomp.build("full", "riscv64")
    with pytest.raises(ValueError, match="none"):
        seccomp.build("none")  # type: ignore[arg-type]


def inside(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter that sees the package as the sandbox does."""
    start = f"import sys; sys.path.append({str(LOCAL)!r})\n"
    command = [sys.executable, "-c", start + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


PROBES = """
import ctypes, errno, json, mmap, os, socket, sys
from inside import seccomp, syscall_policy
from inside.syscall_numbers import NUMBERS
level, folder = sys.argv[1:]
numbers = NUMBERS[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
read_end, write_end = os.pipe()

def call(name, *args):
    ctypes.set_errno(0)
    words = [ctypes.c_ulong(arg) for arg in (*args, *(0,) * (6 - len(args)))]
    number = name if isinstance(name, int) else numbers[name]
    result = libc.syscall(ctypes.c_long(number), *words)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"

def python(function, *args):
    try:
        function(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

seccomp.install(seccomp.build(level))
if call("unshare") != "EPERM":  # the rest is not to be tried without a filter
    raise SystemExit("no filter")
out = {"refused": {n: call(n) for g in syscall_policy.REFUSED for n in sorted(g.calls) if n in numbers}}
path = os.path.join(folder, "file")
with open(path, "w") as file:
    file.write("x")
ours, theirs = socket.socketpair()
ours.send(b"x")
out["probes"] = {
    "clone3": call("clone3"),
    "unknown": call(3000),
    "x32 getpid": call(0x40000000 + 39) if os.uname().machine == "x86_64" else "ENOSYS",
    "clone NEWUSER": call("clone", 0x10000000 | 17),
    "clone NEWPID, upper half set": call("clone", 1 << 40 | 0x20000000 | 17),
    "clone PARENT": call("clone", 0x8000 | 17),
    "clone FILES without a thread": call("clone", 0x400 | 17),
    "socket": python(socket.socket),
    "socketpair INET": call("socketpair", 2, 1),
    "socketpair DGRAM": python(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM),
    "socketpair STREAM": "done" if theirs.recv(1) == b"x" else "lost",
    "ioctl TIOCSTI": call("ioctl", read_end, 0x5412),
    "ioctl TIOCSCTTY": call("ioctl", read_end, 0x540E),
    "ioctl TIOCLINUX": call("ioctl", read_end, 0x541C),
    "ioctl FS_IOC_SETFLAGS": call("ioctl", read_end, 0x40086602),
    "ioctl FIONBIO": python(os.set_blocking, read_end, False),
    "fcntl SETLEASE": call("fcntl", read_end, 1024, 1),
    "prctl SET_DUMPABLE": call("prctl", 4, 1),
    "prctl SET_CHILD_SUBREAPER": call("prctl", 36, 1),
    "prctl GET_DUMPABLE": call("prctl", 3),
    "prlimit of pid 1": call("prlimit64", 1, 0),
    "prlimit of itself": call("prlimit64", 0, 0),
    "second filter": call("seccomp", 1, 0, 0),
    "mmap SHARED ANONYMOUS": python(mmap.mmap, -1, 4096),
    "mmap SHARED_VALIDATE ANONYMOUS": python(mmap.mmap, -1, 4096, 0x23),
    "mmap PRIVATE ANONYMOUS": python(mmap.mmap, -1, 4096, 0x22),
    "mmap SHARED of a file": python(mmap.mmap, os.open(path, os.O_RDWR), 0),
    "chmod": python(os.chmod, path, 0o640),
    "utime": python(os.utime, path),
    "setpriority": call("setpriority", 0, 0, 1),
}
if os.fork() == 0:  # a group leader cannot make a session, with or without a filter
    out["probes"]["setsid"] = python(os.setsid)
    print(json.dumps(out))
else:
    os.wait()
"""

ENDS = {
    "clone3": "ENOSYS",
    "unknown": "ENOSYS",
    "x32 getpid": "ENOSYS",
    "socketpair STREAM": "done",
    "ioctl FIONBIO": "done",
    "prctl GET_DUMPABLE": "done",
    "prlimit of itself": "done",
    "mmap PRIVATE ANONYMOUS": "done",
    "mmap SHARED of a file": "done",
}
FULL_ONLY = ("setsid", "chmod", "utime", "setpriority")


@here
@pytest.mark.parametrize("level", LEVELS)
def test_an_installed_filter_refuses_what_the_policy_refuses(level: str, tmp_path: Path) -> None:
    done = inside(PROBES, level, str(tmp_path))
    assert done.returncode == 0, done.stderr
    out: dict[str, Any] = json.loads(done.stdout)
    assert {name: end for name, end in out["refused"].items() if end != "EPERM"} == {}
    full_only = dict.fromkeys(FULL_ONLY, "done" if level == "full" else "EPERM")
    for name, end in out["probes"].items():
        assert end == (ENDS | full_only).get(name, "EPERM"), name


@here
@pytest.mark.parametrize("level", LEVELS)
def test_science_works_under_the_filter(level: str, tmp_path: Path) -> None:
    code = """
import os, sys
from inside import seccomp
os.chdir(sys.argv[2])
seccomp.install(seccomp.build(sys.argv[1]))
import multiprocessing, sqlite3, subprocess
import numpy as np, pandas as pd
from sklearn.ensemble import RandomForestClassifier
X = np.random.default_rng(0).normal(size=(60, 3))
pd.DataFrame(X).to_csv("a.csv", index=False)
X = pd.read_csv("a.csv").to_numpy()
RandomForestClassifier(4, n_jobs=2).fit(X, X[:, 0] > 0).predict(X)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run("echo a | cat", shell=True, capture_output=True, check=True).stdout == b"a\\n"
with sqlite3.connect("a.db") as db:
    db.execute("create table t(a)")
print("works")
"""
    done = inside(code, level, str(tmp_path))
    assert (done.stdout, done.returncode) == ("works\n", 0), done.stderr


@here
def test_a_filter_for_another_architecture_kills() -> None:
    other = next(machine for machine in MACHINES if machine != platform.machine())
    done = inside(
        "from inside import seccomp\nseccomp.install(seccomp.build('full', sys.argv[1]))\nprint(1)", other
    )
    assert done.stdout == ""
    assert done.returncode == -31  # SIGSYS


@here
def test_a_program_that_the_kernel_refuses_raises() -> None:
    """A failed installation must raise an error."""
    code = "from inside import seccomp\ntry: seccomp.install(bytes(8))\nexcept OSError as e: print(e.errno)"
    assert inside(code).stdout == f"{errno.EINVAL}\n"
