"""Supervisor: strange requests, and code that attacks the server that forked it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from attacks.harness import LIBC, LIMITS, battery, table, wider
from attacks.levels import LEVELS, Sandboxes

ATTACKS = table(
    """
### server_by_parent_number
for _ in range(3):
    parent = os.getppid()
    if parent > 1:
        for number in (1, 2, 15, 19, 9):
            try:
                os.kill(parent, number)
                print('GOT')
            except OSError:
                pass
### server_by_group
for group in {os.getpgid(0), os.getsid(0), os.getppid()}:
    if group > 1 and group != os.getpid():
        try:
            os.killpg(group, 0)
            print('GOT')
        except OSError:
            pass
### server_by_debugger
if syscall($nr_ptrace, 0x4206, os.getppid() or 1, 0, 0) == 0:
    print('GOT')
### server_by_memory
import struct
into = ctypes.create_string_buffer(64)
local = struct.pack('2Q', ctypes.addressof(into), 64)
for address in (id(os), id(type), ctypes.addressof(_libc.getpid)):
    remote = struct.pack('2Q', address, 64)
    if syscall($nr_process_vm_readv, os.getppid() or 1, local, 1, remote, 1, 0) > 0 and os.getpid() != 1:
        print('GOT')
### server_by_its_files
for name in ('mem', 'environ', 'maps', 'cwd', 'root', 'fd', 'ns/mnt'):
    for pid in {os.getppid(), os.getppid() - 1}:
        if pid > 1:
            try:
                os.stat(f'/proc/{pid}/{name}/.' if name == 'fd' else f'/proc/{pid}/{name}')
                open(f'/proc/{pid}/{name}', 'rb').read(1)
                print('GOT', name)
            except IsADirectoryError:
                print('GOT', name)
            except OSError:
                pass
### server_by_priority
if os.getppid() > 1:
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 10)
    print('GOT')
### server_by_limit
import resource
if os.getppid() > 1:
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (10, 10))
    print('GOT')
### server_by_descriptor
for pid in (os.getppid(), 1):
    if pid > 1:
        f = os.pidfd_open(pid)
        for number in range(20):
            if syscall($nr_pidfd_getfd, f, number, 0) >= 0:
                print('GOT', number)
### server_by_terminal_signal
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
    os.killpg(0, number)
""",
    prelude=LIBC,
    unproven="the unconfined run's parent is the test itself",
)

_, test_contained = battery(ATTACKS)

ODD = {
    "empty": ("", "ok"),
    "only_spaces": (" \n\t\n", "ok"),
    "zero_byte": ("print(1)\0", "error"),
    "lone_surrogate": ("x = '\ud800'", "ok"),
    "byte_order_mark": ("\ufeffprint(1)", "error"),
    "other_line_ends": ("x = 1\r\nprint(x)\rprint(x)", "ok"),
    "declared_encoding": ("# coding: latin-1\nprint('\u20ac')", "ok"),
    "unknown_encoding": ("# coding: no-such-thing\nprint(1)", "ok"),
    "deep_brackets": ("(" * 5000 + ")" * 5000, "error"),
    "deep_minus": ("-" * 200_000 + "1", None),
    "deep_attributes": ("x" + ".a" * 100_000, None),
    "deep_indentation": ("\n".join(" " * n + "if 1:" for n in range(150)), "error"),
    "four_megabytes": ("x = '" + "y" * (4 << 20) + "'\nprint(len(x))", "ok"),
    "many_lines": ("x = 1\n" * 20_000, "ok"),
    "huge_constant": ("x = 9 ** 9 ** 5", None),
    "huge_literal": ("x = " + "9" * 5000, "error"),
    "request_like": ('{"limits": {"wall": 1e9}}\n', "ok"),
    "shell_like": ("#!/bin/sh\nexit 7", "error"),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ODD)
def test_any_text_is_a_request(name: str, level: str, sandboxes: Sandboxes) -> None:
    """The server never reads code, so code that breaks its reader breaks only the action."""
    code, status = ODD[name]
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, code, LIMITS)
        after = sandboxes[level].run(workspace, "print(6 * 7)", LIMITS)
    assert result.status == status or (
        status is None and result.status in ("ok", "error", "killed", "memory")
    ), result
    assert (after.status, after.stdout) == ("ok", "42\n"), after


@pytest.mark.parametrize("level", LEVELS)
def test_hostile_actions_side_by_side(level: str, sandboxes: Sandboxes) -> None:
    """Hostile actions kill, flood, fork and fill; the honest ones between them get correct results."""
    hostile = [
        "import os\nos.kill(-1, 9)",
        "import os\nos.abort()",
        "while True: print('x' * 100000)",
        "import os\nfor _ in range(60):\n    try: os.fork()\n    except OSError: pass",
        "x = []\nwhile True: x.append(b'1' * (16 << 20))",
        "f = open('x', 'wb')\nwhile True: f.write(b'1' * (1 << 20))",
        "import ctypes\nctypes.CDLL(None).prctl(15, b'\\xff', 0, 0, 0)\nctypes.string_at(0)",
    ]
    limits = wider(memory_mb=256, disk_mb=8, processes=16, output_cap_mb=1)

    def run(number: int) -> tuple[str, str]:
        with sandboxes[level].open_workspace() as workspace:
            code = hostile[number // 2] if number % 2 else f"print({number} ** 2)"
            result = sandboxes[level].run(workspace, code, limits if number % 2 else LIMITS)
            return result.status, result.stdout

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(run, range(2 * len(hostile))))
    honest = results[::2]
    assert honest == [("ok", f"{number**2}\n") for number in range(0, 2 * len(hostile), 2)], results
    assert "unavailable" not in {status for status, _ in results}, results


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_left_of_any_action(level: str, sandboxes: Sandboxes) -> None:
    """The sandbox has as many descendants as before: only its servers, and no zombies."""

    def below() -> int:
        return len(psutil.Process().children(recursive=True))

    sandbox = sandboxes[level]
    leave = """
import os, time
for _ in range(5):
    if os.fork() == 0:
        os.fork()
        time.sleep(60)
os._exit(0)
"""
    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "pass", LIMITS)
        before = below(), len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            assert sandbox.run(workspace, leave, LIMITS).status == "ok"
        sandbox.run(workspace, "pass", LIMITS)
        after = below(), len(os.listdir("/proc/self/fd"))
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1] + 1
