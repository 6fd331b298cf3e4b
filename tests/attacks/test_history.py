"""The file history: nothing passes between actions without a record, and no action locks the next one out."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from operator import attrgetter

import pytest

from attacks.harness import LIMITS, unconfined
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.workspace.snapshot import DIGEST, MAX_DEPTH, MAX_ENTRIES
from mappa_env.workspace.workspace import Workspace

_A_WHILE_S = 0.05
"""Longer than the ticks of any clock: what changes after that has a new time."""


@dataclass(frozen=True)
class Message:
    """``plant`` leaves something in the workspace, and ``find`` prints whether it is there."""

    name: str
    plant: str
    find: str


_MOVED = "open('sub/x', 'w')\nos.unlink('sub/x')\n"
"""A change inside a folder, which sets both times of the folder."""

MESSAGES = [
    Message("empty_folder", "os.mkdir('the-answer-is-7')", "os.path.exists('the-answer-is-7')"),
    Message(
        "far_below",
        "os.makedirs('/'.join('d' * 40))\nopen('/'.join('d' * 40) + '/x', 'w').write('7')",
        "os.path.exists('/'.join('d' * 40))",
    ),
    Message(
        "long_name", "os.makedirs('/'.join(['d' * 200] * 6))", "os.path.exists('/'.join(['d' * 200] * 6))"
    ),
    Message(
        "attribute_of_folder", "os.setxattr('sub', 'user.x', b'7')\n" + _MOVED, "bool(os.listxattr('sub'))"
    ),
    Message("attribute_of_workspace", "os.setxattr('.', 'user.x', b'7')", "bool(os.listxattr('.'))"),
    Message(
        "attribute_of_file", "os.setxattr('given.csv', 'user.x', b'7')", "bool(os.listxattr('given.csv'))"
    ),
    Message(
        "attribute_of_new_file",
        "open('y', 'w')\nos.setxattr('y', 'user.x', b'7')",
        "os.path.exists('y') and bool(os.listxattr('y'))",
    ),
    Message("time_of_folder", "os.utime('sub', ns=(7, 7))", "os.stat('sub').st_mtime_ns == 7"),
    Message(
        "access_time_of_folder",
        "os.utime('sub', ns=(2**62, 7))\n" + _MOVED,
        "os.stat('sub').st_atime_ns == 2**62",
    ),
    Message("time_of_workspace", "os.utime('.', ns=(7, 7))", "os.stat('.').st_mtime_ns == 7"),
    Message("mode_of_folder", "os.chmod('sub', 0o751)\n" + _MOVED, "os.stat('sub').st_mode & 0o777 == 0o751"),
    Message("mode_of_workspace", "os.chmod('.', 0o751)", "os.stat('.').st_mode & 0o777 == 0o751"),
    Message("renamed_folder", "os.rename('sub', 'seven')", "os.path.exists('seven')"),
    Message(
        "mapping",
        "import mmap\nwith open('given.csv', 'r+b') as f:\n    m = mmap.mmap(f.fileno(), 0)\n"
        "    m[0], m[2:3] = m[0], b'7'\n    m.close()",
        "open('given.csv').read(3) == 'a,7'",
    ),
    Message(
        "mapping_read_first",
        "import mmap\nwith open('given.csv', 'r+b') as f:\n    m = mmap.mmap(f.fileno(), 0)\n"
        "    old = m[0]\n    time.sleep(0.05)\n    m[2:3] = b'7'\n    m.close()",
        "open('given.csv').read(3) == 'a,7'",
    ),
    Message(
        "time_of_reading",
        "open('given.csv').read()",
        "(lambda s: s.st_atime_ns > s.st_ctime_ns)(os.stat('given.csv'))",
    ),
]


def workspace_of(sandboxes: Sandboxes, level: str) -> Workspace:
    """A workspace whose last change, scan and action are a while ago."""
    workspace = sandboxes[level].open_workspace()
    workspace.put("given.csv", b"a,b\n1,2\n")
    workspace.put("sub/given.csv", b"a,b\n1,2\n")
    time.sleep(_A_WHILE_S)
    assert sandboxes[level].run(workspace, "pass", LIMITS).files == ()
    time.sleep(_A_WHILE_S)
    return workspace


@pytest.mark.parametrize("message", MESSAGES, ids=attrgetter("name"))
def test_canary_what_is_planted_can_be_found(message: Message) -> None:
    scene = Scene(os.getuid())
    with Workspace() as workspace:
        for name in ("given.csv", "sub/given.csv"):
            workspace.put(name, b"a,b\n1,2\n")
        time.sleep(_A_WHILE_S)
        run = unconfined(f"import os, time\n{message.plant}\nprint({message.find})", scene, workspace)
    scene.close()
    if "Operation not supported" in run.result.stderr:
        pytest.skip("this file system keeps no attributes")
    if (message.name, run.stdout) == ("time_of_reading", "False\n"):
        pytest.skip("this file system keeps no access times")
    assert (run.result.status, run.stdout) == ("ok", "True\n"), run.result


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("message", MESSAGES, ids=attrgetter("name"))
def test_a_message_is_listed_or_lost(message: Message, level: str, sandboxes: Sandboxes) -> None:
    if (message.name, level) == ("time_of_reading", "landlock"):
        pytest.skip("depends on the file system below the folder for temporary files: docs/security.md")
    sandbox, start = sandboxes[level], "import os, time\n"
    attempt = f"try:\n    exec({message.plant!r})\nexcept PermissionError as error:\n    print(error)"
    with workspace_of(sandboxes, level) as workspace:
        sent = sandbox.run(workspace, start + attempt, LIMITS)
        time.sleep(_A_WHILE_S)
        got = sandbox.run(workspace, f"{start}print({message.find})", LIMITS)
    assert sent.status in ("ok", "disk_limit"), sent
    assert got.status == "ok", got
    assert sent.files or got.stdout == "False\n", (sent, got)
    if message.name in ("far_below", "long_name"):
        assert (sent.status, got.stdout) == ("disk_limit", "False\n")
        assert "were removed" in sent.stderr
    if message.name.startswith("mapping") and level == "full":
        assert [(change.path, change.op) for change in sent.files] == [("given.csv", "modified")]
    assert got.files == ()  # nothing that the first action did counts as the second one's


def test_a_file_cannot_wait_beyond_the_limits(sandboxes: Sandboxes) -> None:
    """Moved below the limit, it counts as deleted; moved up again, it is not somebody else's creation."""
    down = "import os\nos.makedirs('/'.join('d' * 40))\nos.rename('given.csv', '/'.join('d' * 40) + '/x')"
    up = "import os\nos.rename('/'.join('d' * 40) + '/x', 'mine.csv')"
    with workspace_of(sandboxes, "full") as workspace:
        first = sandboxes["full"].run(workspace, down, LIMITS)
        second = sandboxes["full"].run(workspace, up, LIMITS)
    assert first.status == "disk_limit"
    assert first.deleted == ("given.csv",)
    assert len(first.files) == 1 + MAX_DEPTH
    assert "FileNotFoundError" in second.stderr
    assert second.files == ()


def test_no_file_waits_in_a_crowd(sandboxes: Sandboxes) -> None:
    code = f"for number in range({MAX_ENTRIES + 50}):\n    open(f'x{{number:05}}', 'w').close()"
    with workspace_of(sandboxes, "landlock") as workspace:
        first = sandboxes["landlock"].run(workspace, code, LIMITS)
        second = sandboxes["landlock"].run(workspace, "import os\nprint(len(os.listdir()))", LIMITS)
    assert first.status == "disk_limit"
    assert len(first.files) == MAX_ENTRIES - 3
    assert (second.stdout, second.files) == (f"{MAX_ENTRIES - 1}\n", ())


CLOSED = {
    "workspace": ("os.chmod('.', 0)", {".": 0}),
    "workspace_half": ("os.chmod('.', 0o600)", {".": 0o600}),
    "workspace_read_only": ("os.chmod('.', 0o500)", {".": 0o500}),
    "folder": ("os.chmod('sub', 0)", {"sub": 0}),
    "folder_half": ("os.chmod('sub', 0o100)", {"sub": 0o100}),
    "folder_read_only": ("os.chmod('sub', 0o555)", {"sub": 0o555}),
    "file": ("os.chmod('given.csv', 0)", {"given.csv": 0}),
    "file_read_only": ("os.chmod('given.csv', 0o444)", {"given.csv": 0o444}),
    "file_for_others": ("os.chmod('given.csv', 0o077)", {"given.csv": 0o077}),
    "all": (
        "os.chmod('sub/given.csv', 0); os.chmod('sub', 0); os.chmod('.', 0)",
        {".": 0, "sub": 0, "sub/given.csv": 0},
    ),
    "and_opened_again": ("os.chmod('given.csv', 0); os.chmod('given.csv', 0o644)", {"given.csv": None}),
    "folder_opened_again": ("os.chmod('sub', 0); os.chmod('sub', 0o755)", {"sub": None}),
}
"""What closes the workspace, and the changes that the file history lists: path and permissions left."""


@pytest.mark.parametrize("name", CLOSED)
def test_nobody_is_locked_out_by_another(name: str, sandboxes: Sandboxes) -> None:
    """The host sees all files, the next action uses them, and the record says who did what."""
    close, modes = CLOSED[name]
    read = (
        "print(open('given.csv').read() == open('sub/given.csv').read())\nopen('new', 'w').write('1')\n"
        "open('given.csv', 'r+').close()\nopen('sub/given.csv', 'r+').close()\nopen('sub/new', 'w').close()"
    )
    with workspace_of(sandboxes, "full") as workspace:
        first = sandboxes["full"].run(workspace, f"import os\n{close}", LIMITS)
        second = sandboxes["full"].run(workspace, read, LIMITS)
        assert workspace.read("given.csv") == b"a,b\n1,2\n"
    assert {change.path: change.mode for change in first.files} == modes
    assert {change.op for change in first.files} == {"modified"}
    for change in first.files:
        assert change.kind == ("file" if change.path.endswith(".csv") else "dir")
        assert len(change.sha256) == DIGEST or change.kind == "dir"
    assert (second.status, second.stdout) == ("ok", "True\n"), second
    made = [(change.path, change.op, change.mode) for change in second.files]
    assert made == [("new", "created", None), ("sub/new", "created", None)]


@pytest.mark.parametrize("level", LEVELS)
def test_nobody_is_locked_out_of_what_another_makes(level: str, sandboxes: Sandboxes) -> None:
    """A mode can be given when a file or folder is made, where ``chmod`` is refused, too."""
    make = (
        "import os\nos.umask(0)\nos.mkdir('made', 0o700)\n"
        "for path, mode in (('none', 0), ('read_only', 0o444), ('made/x', 0o222), ('usual', 0o640)):\n"
        "    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode))\n"
        "os.mkdir('shut', 0)\nos.mkdir('half', 0o600)"
    )
    use = (
        "for path in ('none', 'read_only', 'made/x', 'usual'):\n    open(path, 'r+').close()\n"
        "for path in ('shut', 'half'):\n    open(path + '/y', 'w').close()"
    )
    with workspace_of(sandboxes, level) as workspace:
        first = sandboxes[level].run(workspace, make, LIMITS)
        second = sandboxes[level].run(workspace, use, LIMITS)
    assert first.status == "ok", first
    assert {change.path: change.mode for change in first.files} == {
        "half": 0o600,
        "made": None,
        "made/x": 0o222,
        "none": 0,
        "read_only": 0o444,
        "shut": 0,
        "usual": None,
    }
    assert second.status == "ok", second
    assert [(change.path, change.op) for change in second.files] == [
        ("half/y", "created"),
        ("shut/y", "created"),
    ]
