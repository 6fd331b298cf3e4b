"""A mix of ordinary and hostile actions. Each first prints its own token."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mappa_env.sandbox.base import Limits, Result

HOSTILE_SHARE = 0.02
"""Fraction of the actions for each hostile kind."""
TOKEN = re.compile(r"token-\d+-[0-9a-f]{16}")
_SPIN = "while True: pass"
_SLEEP = "import time\ntime.sleep(600)"
_DEAF = """
import signal
for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True: pass
"""
_HOARD = "held = []\nwhile True: held.append(b'x' * (16 << 20))"
_HOARD_TOGETHER = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = []
        while True:
            held.append(b'x' * (16 << 20))
            time.sleep(0.01)
time.sleep(600)
"""
_FORK = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
_FLOOD = "while True: print('x' * 65536)"
_FLOOD_ERR = "import os\nwhile True: os.write(2, b'\\xff' * 65536)"
_FILL = "with open('big', 'wb') as file:\n    while True: file.write(bytes(1 << 20))"
_FILL_MANY = """
for i in range(64):
    with open(f'{i}', 'wb') as file:
        file.write(bytes(1 << 20))
"""
_SEGFAULT = "import ctypes\nctypes.string_at(0)"
_ABORT = "import os\nos.abort()"
_SCRIBBLE = "import ctypes\nctypes.memset(8, 0, 8)"
_LOG = """
with open('log', 'a') as file:
    file.write('line\\n')
print(len(open('log').readlines()))
"""
_TABLE = """
import pandas as pd
pd.DataFrame({'a': range(50)}).to_csv('table.csv', index=False)
print(pd.read_csv('table.csv').a.sum())
"""
_SOLVE = "import numpy as np\nprint(np.linalg.solve(np.eye(50) * 2, np.ones(50)).sum())"
_CHILD = "import os\nif os.fork() == 0: os._exit(0)\nos.wait()"


@dataclass(frozen=True)
class Kind:
    """A job uses one of ``codes`` at random; ``expected`` are the correct statuses."""

    name: str
    codes: tuple[str, ...]
    expected: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)


HOSTILE = (
    Kind("timeout", (_SPIN, _SLEEP, _DEAF), ("timeout",), Limits(wall_s=0.5)),
    Kind("memory bomb", (_HOARD, _HOARD_TOGETHER), ("memory",), Limits(memory_mb=1024)),
    Kind("fork bomb", (_FORK,), ("timeout", "killed"), Limits(wall_s=0.5)),
    Kind("output flood", (_FLOOD, _FLOOD_ERR), ("output_limit",), Limits(output_cap_mb=1)),
    Kind("disk fill", (_FILL, _FILL_MANY), ("disk_limit",), Limits(disk_mb=16)),
    Kind("crash", (_SEGFAULT, _ABORT, _SCRIBBLE), ("killed",)),
)
ORDINARY = (
    Kind("ordinary", ("", _LOG, _TABLE, _SOLVE, _CHILD), ("ok",)),
    Kind("exception", ("1 / 0",), ("error",)),
)


@dataclass(frozen=True)
class Job:
    """One action of the workload. ``token`` is unique: only the answer to this job may contain it."""

    number: int
    kind: Kind
    token: str
    code: str


def jobs(count: int, seed: int = 0) -> Iterator[Job]:
    """``count`` jobs in random order; every 50 contain one of each hostile kind."""
    rng = random.Random(seed)
    size = round(1 / HOSTILE_SHARE)
    block: list[Kind] = []
    for number in range(count):
        if not block:
            block = [*HOSTILE, ORDINARY[1], *[ORDINARY[0]] * (size - len(HOSTILE) - 1)]
            rng.shuffle(block)
        kind = block.pop()
        token = f"token-{number}-{rng.getrandbits(64):016x}"
        yield Job(number, kind, token, f"print({token!r}, flush=True)\n{rng.choice(kind.codes)}")


def complaint(job: Job, result: Result) -> str:
    """What is wrong with an answer; empty if it is correct."""
    said = TOKEN.findall(result.stdout)
    if said != [job.token]:
        wrong = f"answered with {said or 'no token'}, status {result.status}"
    elif result.status not in job.kind.expected:
        wrong = f"status {result.status}, expected {' or '.join(job.kind.expected)}"
    else:
        return ""
    ended = f"exit code {result.exit_code} after {result.wall_s:.2f} s: {result.stderr[-200:]}"
    return f"action {job.number} ({job.kind.name}): {wrong}; {ended}\n{job.code}"
