"""Output: floods, bytes that are not text, terminal control characters, pipes that stay open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from attacks.harness import LIMITS, Attack, table, wider
from attacks.levels import LEVELS, Sandboxes
from mappa_env.sandbox import Result

SMALL = wider(output_kb=16, output_cap_mb=1, wall_s=120.0)
FLOODS = {
    "flood",
    "flood_of_errors",
    "flood_without_line_breaks",
    "flood_by_children",
    "flood_of_small_writes",
}
FAILED = {"stream_that_raises", "streams_closed_twice"}
"""Their own exception ends them, or their streams cannot be flushed."""

ATTACKS = table(
    """
### flood
while True:
    os.write(1, b'x' * 65536)
### flood_of_errors
while True:
    os.write(2, b'x' * 65536)
### flood_without_line_breaks
print('x' * (4 << 20), flush=True)
time.sleep(30)
### flood_of_small_writes
while True:
    os.write(1, b'spam\\n')
### flood_by_children
for _ in range(4):
    if os.fork() == 0:
        while True:
            os.write(1, b'y' * 4096)
os.wait()
### just_below_the_cap
for _ in range(15):
    os.write(1, b'z' * 65536)
### no_text
os.write(1, bytes(range(256)) * 16 + b'\\xff\\xfe\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80')
### cut_characters
os.write(1, ('\\u20ac' * 40000).encode()[1:-1])
### lone_surrogates
print('\\ud800\\udfff\\udc80')
### terminal_controls
print('\\x1b[2J\\x1b[1;1H\\x1b]52;c;ZXZpbA==\\x07\\x9b31m\\r\\b\\x00')
### right_to_left
print('\\u202e\\u2066\\u200f')
### pipe_held_by_child
if os.fork() == 0:
    time.sleep(3600)
os._exit(0)
### pipe_held_by_daemon
if os.fork() == 0:
    try:
        os.setsid()
    except OSError:
        pass
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
os.wait()
os._exit(0)
### streams_closed
os.close(1)
os.close(2)
### streams_closed_twice
sys.stdout.close()
sys.stderr.close()
os.closerange(0, 300)
### streams_replaced
sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None
### stream_that_raises
class Bad:
    def write(self, text): raise KeyboardInterrupt
    def flush(self): raise KeyboardInterrupt
sys.stdout = sys.stderr = Bad()
raise ValueError
### own_output_read_back
os.write(1, b'earlier output')
for change in (lambda: os.fchmod(1, 0o600), lambda: os.chmod('/proc/self/fd/1', 0o600)):
    try:
        change()
    except OSError:
        pass
for path in ('/proc/self/fd/1', '/proc/thread-self/fd/1', '/dev/stdout', '/dev/fd/1'):
    for mode in (os.O_RDONLY, os.O_RDWR):
        try:
            os.read(os.open(path, mode | os.O_NONBLOCK), 100)
        except OSError:
            pass
try:
    os.read(1, 100)
except OSError:
    pass
### output_out_of_band
import socket
out = socket.socket(fileno=os.dup(1))
out.send(b'x')
try:
    out.send(b'y', socket.MSG_OOB)
except OSError:
    out.send(b'y')
time.sleep(0.5)
out.send(b'z')
### who_reads
import socket, struct
out = socket.socket(fileno=os.dup(1))
for option in (17, 31, 59, 77):  # SO_PEERCRED, SO_PEERSEC, SO_PEERGROUPS, SO_PEERPIDFD
    try:
        print('GOT', out.getsockopt(socket.SOL_SOCKET, option, 100))
    except OSError:
        pass
### who_writes
import array, socket
out = socket.socket(fileno=os.dup(1))
for _ in range(50):
    out.sendmsg([b'.'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 2]))])
out.shutdown(socket.SHUT_WR)
### pipes_made_nonblocking
import fcntl
for number in (1, 2):
    os.set_blocking(number, False)
try:
    for _ in range(100):
        os.write(1, b'x' * 4096)
except BlockingIOError:
    pass
### pipes_made_huge
import fcntl
for number in (1, 2):
    try:
        fcntl.fcntl(number, 1031, 1 << 20)
    except OSError:
        pass
os.write(1, b'x' * 300000)
### pipes_locked
import fcntl
for number in (0, 1, 2):
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
    except OSError:
        pass
### pipes_passed_around
import array, socket
a, b = socket.socketpair()
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, 2]))])
os._exit(0)
### imitated_truncation
print('[... 999999 bytes dropped ...]')
### late_output
import atexit
atexit.register(lambda: os.write(1, b'x' * 100000))
### printing_after_the_end
import threading
threading.Thread(target=lambda: (time.sleep(0.3), os.write(1, b'late'))).start()
""",
    prelude="import os, sys, time\n",
    limits=SMALL,
)


def bounded(text: str) -> bool:
    """It has head, mark and tail, and is encodable text."""
    return len(text.encode()) <= 3 * 16 * 1024 + 100


def check(name: str, result: Result) -> None:
    assert result.status == ("output_limit" if name in FLOODS else "error" if name in FAILED else "ok"), (
        result
    )
    assert bounded(result.stdout)
    assert bounded(result.stderr)
    assert result.wall_s < 100


def silent(result: Result) -> bool:
    return result.stdout == ""


EXACT: dict[str, Callable[[Result], bool]] = {
    "just_below_the_cap": lambda result: result.truncated == 15 * 65536 - 16 * 1024,
    "lone_surrogates": lambda result: result.stdout == "???\n",
    "imitated_truncation": lambda result: result.truncated == 0,
    "own_output_read_back": lambda result: result.stdout == "earlier output",
    "output_out_of_band": lambda result: result.stdout == "xyz",
    "who_reads": lambda result: result.stdout == "",
    "who_writes": lambda result: result.stdout == "." * 50,
    "no_text": lambda result: result.stdout.startswith("".join(map(chr, range(128)))),
    "terminal_controls": lambda result: result.stdout.startswith("\x1b[2J\x1b[1;1H"),
    "right_to_left": lambda result: result.stdout == "\u202e\u2066\u200f\n",
    "pipe_held_by_child": silent,
    "pipe_held_by_daemon": silent,
    "streams_closed": silent,
    "streams_closed_twice": silent,
    "streams_replaced": silent,
    "stream_that_raises": silent,
    "pipes_made_nonblocking": lambda result: set(result.stdout[:100]) == {"x"},
    "pipes_made_huge": lambda result: result.truncated == 300000 - 16 * 1024,
    "pipes_locked": silent,
    "pipes_passed_around": silent,
    "late_output": lambda result: result.truncated == 100000 - 16 * 1024,
    "printing_after_the_end": lambda result: result.stdout == "late",
    "cut_characters": lambda result: result.truncated == 119998 - 16 * 1024,
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_output(attack: Attack, level: str, sandboxes: Sandboxes) -> None:
    """There is no unconfined run, because these attacks target the reader of the output."""
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, attack.code, attack.limits)
        check(attack.name, result)
        assert attack.name in FLOODS or EXACT[attack.name](result), result
        after = sandboxes[level].run(workspace, "print(6 * 7)", LIMITS)
        assert (after.status, after.stdout) == ("ok", "42\n"), after
