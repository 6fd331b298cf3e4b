"""Disk: big, sparse, hidden and numerous files, and the quota of neighbours."""

from __future__ import annotations

import pytest

from attacks.harness import LIMITS, Run, battery, table, wider
from attacks.levels import LEVELS, Sandboxes

QUOTA = wider(disk_mb=8, wall_s=60.0)


def grew(run: Run) -> bool:
    """More than the quota remains; at ``landlock``, which reacts late, also unreported."""
    over = run.workspace.scan().disk_bytes > (QUOTA.disk_mb + 1) << 20
    return over and (run.result.isolation != "landlock" or run.result.status != "disk_limit")


ATTACKS = [
    *table(
        """
### one_file
f = open('x', 'wb')
while f.tell() < 60 << 20:
    f.write(b'1' * (1 << 20))
    f.flush()
### many_files
for number in range(60):
    open('x%d' % number, 'wb').write(b'1' * (1 << 20))
### in_folders
for number in range(60):
    os.mkdir('d%d' % number)
    open('d%d/x' % number, 'wb').write(b'1' * (1 << 20))
### refusals_ignored
for number in range(60):
    try:
        open('x%d' % number, 'wb').write(b'1' * (1 << 20))
    except OSError:
        pass
### reserved
for number in range(9):
    os.posix_fallocate(os.open('x%d' % number, os.O_CREAT | os.O_RDWR), 0, 7 << 20)
### mapped
import mmap
for number in range(9):
    with open('x%d' % number, 'w+b') as f:
        f.truncate(7 << 20)
        m = mmap.mmap(f.fileno(), 7 << 20)
        m[::4096] = b'1' * len(m[::4096])
### grown_task_file
for number in range(60):
    with open('x', 'ab') as f:
        f.write(b'1' * (1 << 20))
### in_children
for child in range(4):
    if os.fork() == 0:
        for number in range(15):
            open('x%d-%d' % (child, number), 'wb').write(b'1' * (1 << 20))
        os._exit(0)
for _ in range(4):
    os.wait()
### raised_limit
import resource
try:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (OSError, ValueError):
    pass
open('x', 'wb').write(b'1' * (60 << 20))
""",
        prelude="import os\n",
        limits=QUOTA,
        got=grew,
    ),
    *table(
        """
### deleted_but_open
held = []
for number in range(9):
    f = open('x%d' % number, 'wb', 0)
    os.unlink('x%d' % number)
    f.write(b'1' * (7 << 20))
    held.append(f)
print('GOT' if sum(f.tell() for f in held) > 50 << 20 else '')
### sparse
os.truncate(os.open('x', os.O_CREAT | os.O_WRONLY), 1 << 40)
print('GOT')
""",
        prelude="import os\n",
        limits=QUOTA,
    ),
    *table(
        """
### entries
for number in range(5100):
    os.close(os.open('x%d' % number, os.O_CREAT | os.O_WRONLY))
print('GOT')
### hard_links
open('x', 'w')
for number in range(5100):
    os.link('x', 'x%d' % number)
print('GOT')
""",
        prelude="import os\n",
        limits=QUOTA,
        unproven="a plain folder has no such limit, and trying it is slow",
    ),
    *table(
        """
### in_attributes
import os
held = 0
for number in range(100):
    open('x%d' % number, 'w')
    try:
        for name in range(50):
            os.setxattr('x%d' % number, 'user.%d' % name, b'1' * 60000)
            held += 60000
    except OSError:
        pass
print('GOT' if held > 16 << 20 else '', held)
""",
        limits=QUOTA,
        unproven="the size limit of attributes differs between file systems",
    ),
]

test_canary, test_contained = battery(ATTACKS)


@pytest.mark.parametrize("level", LEVELS)
def test_the_quota_of_neighbours_is_their_own(level: str, sandboxes: Sandboxes) -> None:
    fill = "for number in range(60): open('x%d' % number, 'wb').write(b'1' * (1 << 20))"
    with sandboxes[level].open_workspace() as greedy, sandboxes[level].open_workspace() as modest:
        first = sandboxes[level].run(greedy, fill, QUOTA)
        second = sandboxes[level].run(modest, "open('x', 'wb').write(b'1' * (6 << 20))", QUOTA)
    assert (first.status, second.status) == ("disk_limit", "ok"), (first, second)


@pytest.mark.parametrize("level", LEVELS)
def test_the_quota_counts_over_actions(level: str, sandboxes: Sandboxes) -> None:
    with sandboxes[level].open_workspace() as workspace:
        results = [
            sandboxes[level].run(workspace, f"open('x{n}', 'wb').write(b'1' * (3 << 20))", QUOTA)
            for n in range(4)
        ]
    assert [result.status for result in results] == ["ok", "ok", "disk_limit", "disk_limit"], results


@pytest.mark.parametrize("level", LEVELS)
def test_a_full_workspace_voids_nothing(level: str, sandboxes: Sandboxes) -> None:
    """Existing files may exceed the next action's quota; the action must still get a correct result."""
    with sandboxes[level].open_workspace() as workspace:
        fill = "for number in range(4): open('x%d' % number, 'wb').write(b'1' * (6 << 20))"
        assert sandboxes[level].run(workspace, fill, LIMITS).status == "ok"
        after = sandboxes[level].run(workspace, "print(6 * 7)", QUOTA)
    assert (after.status, after.stdout) == ("ok" if level == "full" else "disk_limit", "42\n"), after
