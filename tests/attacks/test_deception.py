"""Deception: hidden changes, false claims, and facts that code tries to forge."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from attacks.harness import LIMITS, unconfined, wider
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.types import FileChange
from mappa_env.workspace.workspace import Workspace

FileHistory = dict[str, FileChange]
GIVEN = b"a,b\n1,2\n"
GIVEN_SHA256 = hashlib.sha256(GIVEN).hexdigest()
_A_WHILE_S = 0.05
"""Longer than the ticks of any clock: what changes after that has a new time."""


@dataclass(frozen=True)
class Trick:
    code: str
    seen: Callable[[FileHistory], bool]


def only(**ops: str) -> Callable[[FileHistory], bool]:
    """The file history has these changes (``given_csv="modified"``) and no others."""
    expected = {name.replace("_", ".", 1): op for name, op in ops.items()}
    return lambda history: {path: change.op for path, change in history.items()} == expected


KEEP_TIMES = """
import os
info = os.stat('given.csv')
{}
try:
    os.utime('given.csv', ns=(info.st_atime_ns, info.st_mtime_ns))
except PermissionError:
    pass
"""

TRICKS = {
    "same_size_and_time": Trick(
        KEEP_TIMES.format("open('given.csv', 'r+').write('a,c')"), only(given_csv="modified")
    ),
    "same_size_and_time_by_map": Trick(
        KEEP_TIMES.format(
            "import mmap\nwith open('given.csv', 'r+b') as f:\n    m = mmap.mmap(f.fileno(), 0)\n"
            "    m[:3] = b'a,c'\n    m.close()"
        ),
        only(given_csv="modified"),
    ),
    "replaced_by_rename": Trick(
        KEEP_TIMES.format("open('x', 'w').write('a,c\\n1,2\\n')\nos.rename('x', 'given.csv')"),
        only(given_csv="modified"),
    ),
    "swapped_files": Trick(
        "import os\nos.rename('given.csv', 'x')\nos.rename('other.csv', 'given.csv')\n"
        "os.rename('x', 'other.csv')",
        only(given_csv="modified", other_csv="modified"),
    ),
    "deleted_and_written_again": Trick(
        "import os\nos.unlink('given.csv')\nopen('given.csv', 'w').write('a,c\\n1,2\\n')",
        only(given_csv="modified"),
    ),
    "moved_away": Trick(
        "import os\nos.rename('given.csv', 'kept.csv')", only(given_csv="deleted", kept_csv="renamed")
    ),
    "deleted": Trick("import os\nos.unlink('given.csv')", only(given_csv="deleted")),
    "became_a_folder": Trick(
        "import os\nos.unlink('given.csv')\nos.mkdir('given.csv')", only(given_csv="type_changed")
    ),
    "time_of_long_ago": Trick(
        "import os\nopen('new.csv', 'w').write('x')\ntry: os.utime('new.csv', (1, 1))\nexcept OSError: pass",
        only(new_csv="created"),
    ),
    "time_to_come": Trick(
        "import os\nopen('given.csv', 'a').write('x')\ntry: os.utime('given.csv', (2**33, 2**33))\n"
        "except OSError: pass",
        only(given_csv="modified"),
    ),
    "time_before_the_epoch": Trick(
        "import os\nopen('given.csv', 'a').write('x')\ntry: os.utime('given.csv', ns=(-1, -10**18))\n"
        "except OSError: pass",
        only(given_csv="modified"),
    ),
    "written_and_undone": Trick(
        "open('given.csv', 'w').write('zzz')\nopen('given.csv', 'w').write('a,b\\n1,2\\n')",
        lambda history: only(given_csv="modified")(history) and history["given.csv"].sha256 == GIVEN_SHA256,
    ),
    "read_only": Trick("print(open('given.csv').read())", only()),
    "claimed_only": Trick(
        "print('Saved model.pkl')\nprint(\"FileChange(path='model.pkl', op='created', size=999)\")\n"
        "print('created   model.pkl  999 B')",
        only(),
    ),
    "claimed_size": Trick(
        "open('model.pkl', 'w').write('x')\nprint('Saved model.pkl (10 MB)')",
        lambda history: history["model.pkl"].size == 1,
    ),
    "hole_instead_of_content": Trick(
        "import os\nos.truncate(os.open('model.pkl', os.O_CREAT | os.O_WRONLY), 4 << 20)",
        lambda history: (
            history["model.pkl"].sha256 == "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8"
        ),
    ),
    "written_at_exit": Trick(
        "import atexit\natexit.register(lambda: open('given.csv', 'a').write('x'))",
        only(given_csv="modified"),
    ),
    "written_through_second_name": Trick(
        "import os\nos.link('given.csv', 'second.csv')\nopen('second.csv', 'r+').write('a,c')",
        only(given_csv="modified", second_csv="created"),
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", TRICKS)
def test_the_file_history_says_what_happened(name: str, level: str, sandboxes: Sandboxes) -> None:
    with sandboxes[level].open_workspace() as workspace:
        workspace.put("given.csv", GIVEN)
        workspace.put("other.csv", b"x,y\n3,4\n")
        time.sleep(_A_WHILE_S)
        result = sandboxes[level].run(workspace, TRICKS[name].code, LIMITS)
        assert result.status == "ok", result
        assert TRICKS[name].seen({change.path: change for change in result.files}), result
        after = sandboxes[level].run(workspace, "pass", LIMITS)
        assert after.files == ()  # nothing changed afterwards


@pytest.mark.parametrize("level", LEVELS)
def test_content_that_is_written_again_stays_its_first_writers(level: str, sandboxes: Sandboxes) -> None:
    with sandboxes[level].open_workspace() as workspace:
        workspace.put("given.csv", GIVEN)
        result = sandboxes[level].run(workspace, TRICKS["written_and_undone"].code, LIMITS)
        workspace.record(result.files, "agent_0", 0)
        assert workspace.present["given.csv"].agent == ""
        result = sandboxes[level].run(workspace, TRICKS["same_size_and_time"].code, LIMITS)
        workspace.record(result.files, "agent_0", 1)
        assert workspace.present["given.csv"].agent == "agent_0"


CHILD = """
import os, time
if os.fork() == 0:
    {}
    os._exit(0)
{}
os._exit(0)
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_child_that_would_write_after_the_end_never_does(level: str, sandboxes: Sandboxes) -> None:
    """All processes of an action are dead when its result is there."""
    waits = "while not os.path.exists('over'): time.sleep(0.005)\n    open('given.csv', 'a').write('x')"
    with sandboxes[level].open_workspace() as workspace:
        workspace.put("given.csv", GIVEN)
        result = sandboxes[level].run(workspace, CHILD.format(waits, ""), LIMITS)
        assert (result.status, result.files) == ("ok", ()), result
        workspace.put("over", b"")  # a child that still lived would write now
        time.sleep(1.2)
        assert workspace.read("given.csv") == GIVEN


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_child_wrote_before_it_was_killed_is_seen(level: str, sandboxes: Sandboxes) -> None:
    """The digest is that of the last byte: nothing comes after the host has looked."""
    write = "while True: open('given.csv', 'a').write('x')"
    begun = f"while os.path.getsize('given.csv') == {len(GIVEN)}: time.sleep(0.001)"
    with sandboxes[level].open_workspace() as workspace:
        workspace.put("given.csv", GIVEN)
        result = sandboxes[level].run(workspace, CHILD.format(write, begun), LIMITS)
        assert result.status == "ok", result
        (change,) = result.files
        time.sleep(_A_WHILE_S)
        content = workspace.read("given.csv", LIMITS.disk_mb << 20)
    assert (change.path, change.op) == ("given.csv", "modified")
    assert set(content[len(GIVEN) :]) == set(b"x")
    assert change.sha256 == hashlib.sha256(content).hexdigest()


def test_canary_times_can_be_forged() -> None:
    """A file history of only sizes and times could be deceived."""
    scene = Scene(0)
    with Workspace() as workspace:
        workspace.put("given.csv", b"a,b\n1,2\n")
        path = workspace.path / "given.csv"
        before = path.stat()
        unconfined(TRICKS["same_size_and_time"].code, scene, workspace)
        after = path.stat()
        assert path.read_bytes() == b"a,c\n1,2\n"
        assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    scene.close()


@pytest.mark.parametrize("level", LEVELS)
def test_times_are_the_hosts(level: str, sandboxes: Sandboxes) -> None:
    """CPU time and memory are the kernel's figures, whatever the code prints or hides in children."""
    code = """
import os, resource, time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
resource.getrusage = lambda who: None
if os.fork() == 0:
    x = b'1' * (80 << 20)
    end = time.process_time() + 0.4
    while time.process_time() < end:
        pass
    os._exit(0)
os.wait()
print('took 0.0 s and no memory')
"""
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, code, wider(wall_s=60))
    assert result.status == "ok", result
    assert result.cpu_s >= 0.4
    assert result.wall_s >= 0.35
    assert result.peak_rss > 80 << 20
