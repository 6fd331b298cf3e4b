"""Links and special files: traps for a host that walks, reads, copies and removes a workspace.

Confined code can hardly create them, so the host also handles every trap as unconfined code creates it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter

import pytest

from attacks.harness import LIMITS, Attack, fill, table, unconfined
from attacks.levels import LEVELS, Sandboxes
from attacks.scene import Scene
from mappa_env.errors import WorkspaceError
from mappa_env.workspace.workspace import Workspace

TRAPS = table(
    """
### link_to_file
os.symlink('$secret', 'x')
### link_to_folder
os.symlink('$folder', 'd')
### link_above
os.symlink('../../../../../../../..$folder', 'd')
### link_in_place_of_task_file
os.unlink('given.csv')
os.symlink('$secret', 'given.csv')
### link_in_place_of_task_folder
os.unlink('below/given.csv')
os.rmdir('below')
os.symlink('$folder', 'below')
os.symlink('$secret', 'secret.txt')
### link_to_endless_file
os.symlink('/dev/zero', 'x')
os.symlink('/dev/tty', 'y')
os.symlink('/proc/self/mem', 'z')
### link_to_descriptors_of_reader
for number in range(40):
    os.symlink(f'/proc/self/fd/{number}', f'x{number}')
### link_loop
os.symlink('x', 'x')
os.symlink('b', 'a')
os.symlink('a', 'b')
os.mkdir('deep')
os.symlink('..', 'deep/up')
### link_with_huge_target
os.symlink('x/' * 2000, 'x')
### hard_links_many
for number in range(300):
    os.link('given.csv', f'x{number}')
### fifo
os.mkfifo('x')
### fifo_in_place_of_task_file
os.unlink('given.csv')
os.mkfifo('given.csv')
### socket_file
import socket
s = socket.socket(socket.AF_UNIX)
s.bind('x')
### device
import stat
os.mknod('x', stat.S_IFCHR | 0o666, os.makedev(1, 5))
os.mknod('y', stat.S_IFBLK | 0o666, os.makedev(254, 0))
### sparse_file
f = open('x', 'w')
os.truncate('x', 60 << 20)
### sparse_file_beyond_limits
os.truncate('given.csv', 1 << 40)
### deep_folders
for _ in range(600):
    os.mkdir('d' * 20)
    os.chdir('d' * 20)
### closed_folder
os.mkdir('d')
open('d/x', 'w')
os.chmod('d', 0)
os.chmod('.', 0)
### closed_file
os.chmod('given.csv', 0)
### set_user_bits
open('x', 'w')
os.chmod('x', 0o6777)
### workspace_removed
import shutil
here = os.getcwd()
shutil.rmtree('.', ignore_errors=True)
os.rmdir(here)
### workspace_moved_and_linked
here = os.getcwd()
os.rename(here, here + '-moved')
os.symlink('$folder', here)
### scratch_linked
import shutil
above = os.path.dirname(os.getcwd())
shutil.rmtree(above + '/tmp', ignore_errors=True)
os.symlink('$drop', above + '/tmp')
""",
    prelude="import os\n",
)
"""``given.csv`` and ``below/given.csv`` exist from the start."""


def prepared(workspace: Workspace) -> Workspace:
    workspace.put("given.csv", b"a,b\n1,2\n")
    workspace.put("below/given.csv", b"a,b\n1,2\n")
    return workspace


def handle(workspace: Workspace, scene: Scene) -> None:
    """Do all that the host ever does with a workspace. Nothing may block, leak or reach outside."""
    for name in workspace.scan().entries:
        for look in (workspace.read, workspace.preview):
            with suppress(WorkspaceError):
                assert scene.token not in str(look(name))
    with workspace.copy() as twin:
        for name in twin.scan().entries:
            with suppress(WorkspaceError):
                assert scene.token.encode() not in twin.read(name)
    workspace.remove()
    assert not scene.touched
    assert scene.secret.exists()


def in_time(work: Callable[[], None]) -> None:
    """Run ``work``, which must not block, and raise its exception."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the host is stuck"
    if raised:
        raise raised[0]


@pytest.mark.parametrize("trap", TRAPS, ids=attrgetter("name"))
def test_canary_trap_is_set_and_the_host_holds(trap: Attack) -> None:
    scene = Scene(os.getuid())
    workspace = prepared(Workspace())
    try:
        run = unconfined(trap.code, scene, workspace)
        if os.getuid() != 0 and run.result.exit_code:
            pytest.skip("needs root")
        assert run.result.exit_code == 0, run.result
        in_time(lambda: handle(workspace, scene))
    finally:
        workspace.remove()
        scene.close()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("trap", TRAPS, ids=attrgetter("name"))
def test_trap_in_the_sandbox(trap: Attack, level: str, sandboxes: Sandboxes) -> None:
    scene = Scene(sandboxes.actor(level))
    workspace = prepared(sandboxes[level].open_workspace())
    try:
        result = sandboxes[level].run(workspace, fill(trap.code, scene), LIMITS)
        assert result.status != "unavailable", result
        assert not {change.kind for change in result.files} - {"file", "dir"}, result
        after = sandboxes[level].run(workspace, "print(6 * 7)", LIMITS)
        assert (after.status, after.stdout) == ("ok", "42\n"), after
        in_time(lambda: handle(workspace, scene))
    finally:
        workspace.remove()
        scene.close()
