"""Status: forged success, false causes, and above all actions that try to void themselves."""

from __future__ import annotations

import pytest

from attacks.harness import LIBC, LIMITS
from attacks.levels import LEVELS, Sandboxes

FAKES = """
import json, os, struct, sys
REPORTS = [
    b'{"code": 0, "exceeded": "", "wall": 0.0, "claimed": "", "cpu": 0.0, "rss": 0}',
    b'{"failed": "the host is to blame"}', b'{"lost": true}', b'{"status": "ok"}', b'end', b'',
]
"""
"""Messages of the sandbox's own protocol, sent by the action."""

WORD = """
import sys
words, frame = [], sys._getframe()
while frame:
    words += [value for value in frame.f_locals.values() if isinstance(value, str) and 4 <= len(value) <= 10]
    frame = frame.f_back
words = [word for word in dict.fromkeys(words) if word.isalnum()][::-1] + [''] * 4
_libc.prctl(15, ('{0}:' + words[{1}]).encode(), 0, 0, 0)
os._exit(1)
"""
"""Takes a process name that holds a limit and a word from the frames of the sandbox below it."""

CLAIM = "_libc.prctl(0x4D617050, ctypes.c_ulong({0}), 0, 0, 0)\nos._exit(1)"
"""Makes the system call with which the sandbox's own frames report a limit."""

REPORT = """
import os, sys
frame = sys._getframe()
while frame.f_back and '_report' not in frame.f_globals:
    frame = frame.f_back
report = frame.f_globals['_report']
error = {}
try:
    report(error)
except TypeError:  # it wants more words
    for value in list(frame.f_locals.values()):
        try:
            report(error, value)
        except (TypeError, AttributeError):
            pass
os._exit(1)
"""
"""Calls the function of the sandbox that reports a limit."""

ATTACKS = {
    "print_success": ("error", 3, "print('status: ok\\nexit_code: 0\\nok, exit 0')\nraise SystemExit(3)"),
    "print_report": (
        "error",
        3,
        FAKES
        + """
for report in REPORTS:
    print(report.decode())
    print(report.decode(), file=sys.stderr)
sys.exit(3)
""",
    ),
    "report_on_every_descriptor": (
        "error",
        3,
        FAKES
        + """
import array, socket
for number in range(300):
    for report in REPORTS:
        try:
            os.write(number, report)
        except OSError:
            pass
        try:
            socket.socket(fileno=os.dup(number)).send(report)
        except OSError:
            pass
os._exit(3)
""",
    ),
    "report_by_objects_of_the_server": (
        "error",
        3,
        FAKES
        + """
import gc, socket
for thing in gc.get_objects():
    if isinstance(thing, socket.socket):
        for report in REPORTS:
            try:
                thing.send(report)
            except OSError:
                pass
os._exit(3)
""",
    ),
    "replace_the_runner": (
        "ok",  # as with os._exit(0): what leaves with 0 is ok
        0,
        """
import os, sys
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_globals.items()):
        if callable(value) and getattr(value, '__module__', '').split('.')[0] in ('inside', 'mappa_env'):
            frame.f_globals[name] = lambda *a, **k: 0
    frame = frame.f_back
raise ValueError
""",
    ),
    "early_exit": ("ok", 0, "import os\nos._exit(0)\nraise ValueError"),
    "exit_code_of_memory": ("error", 97, "import os\nos._exit(97)"),
    "exit_code_of_disk": ("error", 98, "import os\nos._exit(98)"),
    "exit_code_of_timeout": ("error", 124, "import os\nos._exit(124)"),
    "exit_code_of_kill": ("error", 137, "import os\nos._exit(137)"),
    "exit_code_of_signal": ("error", 247, "import os\nos._exit(-9 & 255)"),
    "exit_code_of_segfault": ("error", 139, "raise SystemExit(139)"),
    "exit_codes_at_the_edge": ("error", 255, "raise SystemExit(-1)"),
    "exit_with_text": ("error", 1, "raise SystemExit('status: ok')"),
    "exit_with_object": (
        "error",
        1,
        "class A:\n    def __str__(self): raise ValueError\nraise SystemExit(A())",
    ),
    "exit_in_thread": (
        "error",
        4,
        "import threading, sys\n"
        "t = threading.Thread(target=sys.exit, args=(0,))\nt.start(); t.join()\nsys.exit(4)",
    ),
    "exit_in_child": ("error", 5, "import os\nif os.fork() == 0: os._exit(0)\nos.wait()\nos._exit(5)"),
    "exit_handler_that_raises": ("ok", 0, "import atexit\natexit.register(lambda: 1 / 0)"),
    "crash": ("killed", -11, "import ctypes\nctypes.string_at(0)"),
    "abort": ("killed", -6, "import os\nos.abort()"),
    "stack_overflow": (
        "killed",
        -11,
        "import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(60000): x = [x]\nrepr(x)",
    ),
    "name_of_memory": ("error", 1, LIBC + "_libc.prctl(15, b'mappa:memory', 0, 0, 0)\nos._exit(1)"),
    "name_of_disk": ("error", 1, LIBC + "_libc.prctl(15, b'mappa:disk', 0, 0, 0)\nos._exit(1)"),
    "name_of_fork": ("error", 1, LIBC + "_libc.prctl(15, b'mappa:fork', 0, 0, 0)\nos._exit(1)"),
    "name_that_is_no_text": (
        "error",
        6,
        LIBC + "_libc.prctl(15, b'\\xff\\xfe\\x80', 0, 0, 0)\nos._exit(6)",
    ),
    "name_with_brackets": (
        "error",
        7,
        LIBC + "_libc.prctl(15, b') S 1 1 (', 0, 0, 0)\nimport time\ntime.sleep(0.2)\nos._exit(7)",
    ),
    "name_with_line_break": ("error", 8, LIBC + "_libc.prctl(15, b'a\\nb', 0, 0, 0)\nos._exit(8)"),
    **{
        f"name_{limit}_with_{position}_word_of_the_server": (
            "error",
            1,
            LIBC + WORD.format(limit, position),
        )
        for limit in ("memory", "disk", "proces")
        for position in range(4)
    },
    **{f"claim_{number}": ("error", 1, LIBC + CLAIM.format(number)) for number in (0, 1, 2, 3, 2**40)},
    **{
        f"report_{number}": ("error", 1, REPORT.format(error))
        for number, error in enumerate(
            ("MemoryError()", "BlockingIOError(11, 'full')", "OSError(28, 'full')")
        )
    },
    "signal_of_time_limit": ("killed", -24, "import os\nos.kill(os.getpid(), 24)"),
    "signal_of_size_limit": (
        "killed",
        -25,
        "import os, signal\nsignal.signal(25, signal.SIG_DFL)\nos.kill(os.getpid(), 25)",
    ),
    "raise_would_block": ("error", 1, "raise BlockingIOError(11, 'try again')"),
    "raise_disk_full": ("error", 1, "raise OSError(28, 'No space left on device')"),
    "raise_memory_error": ("error", 1, "raise MemoryError"),
    "raise_interrupt": ("error", 1, "raise KeyboardInterrupt"),
    "claim_in_error_text": ("error", 1, "raise Exception('MemoryError: unavailable: timeout')"),
    "no_code": ("ok", 0, ""),
    "no_text": ("error", 1, "\0"),
    "no_python": ("error", 1, "this is (not python"),
}
"""Name -> status, exit code, and code."""
AT_FULL: dict[str, tuple[str, int | tuple[int, ...]]] = {
    "abort": ("killed", (-4, -5, -11)),  # by the processor: an instruction that traps
    "signal_of_time_limit": ("ok", 0),
    "signal_of_size_limit": ("ok", 0),
}
"""Process 1 of a namespace ignores the signals that it sends itself: docs/sandbox.md."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ATTACKS)
def test_status_is_what_happened(name: str, level: str, sandboxes: Sandboxes) -> None:
    status, exit_code, code = ATTACKS[name]
    expected = AT_FULL.get(name, (status, exit_code)) if level == "full" else (status, exit_code)
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, code, LIMITS)
        after = sandboxes[level].run(workspace, "print(6 * 7)", LIMITS)
    codes = expected[1] if isinstance(expected[1], tuple) else (expected[1],)
    assert result.status == expected[0], result
    assert result.exit_code in codes, result
    assert (after.status, after.stdout) == ("ok", "42\n"), after
