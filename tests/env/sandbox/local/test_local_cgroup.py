"""Leaves of both versions of cgroups: on fake trees, and on a real one where this process may make some."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from attacks.harness import wider

from mappa_env.errors import SandboxWarning
from mappa_env.sandbox.local import LocalSandbox, cgroup
from mappa_env.sandbox.local.cgroup import leaf as leaf_module
from mappa_env.sandbox.local.cgroup.v1 import LeafV1
from mappa_env.sandbox.local.cgroup.v2 import LeafV2
from mappa_env.sandbox.memory import machine_memory

DEADLINE_S = 60.0
FILES = {
    LeafV2: ("cgroup.procs", "cgroup.kill", "memory.max", "memory.oom.group", "pids.max"),
    LeafV1: ("cgroup.procs", "tasks", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
}
"""What the kernel makes in a new leaf."""
OOM = {LeafV2: "memory.events", LeafV1: "memory.oom_control"}
FULL = {
    LeafV2: ("memory.events", "oom 1\noom_kill 1\n"),
    LeafV1: ("memory.max_usage_in_bytes", f"{(1 << 30) - 4096}\n"),
}


@pytest.fixture(params=FILES)
def kind(request: pytest.FixtureRequest) -> type[cgroup.Leaf]:
    chosen: type[cgroup.Leaf] = request.param
    return chosen


@pytest.fixture
def tree(kind: type[cgroup.Leaf], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake hierarchy of plain files: ``unit`` may hold leaves, and ``unit/main`` contains the processes."""
    unit = tmp_path / "fs" / "unit"
    (unit / "main").mkdir(parents=True)
    for place in (unit, unit / "main"):
        (place / "cgroup.procs").touch()
    if kind is LeafV2:
        (unit / "cgroup.subtree_control").write_text("memory pids\n")

    def mkdir(path: str, *, dir_fd: int) -> None:
        os.mkdir(path, dir_fd=dir_fd)
        for file in FILES[kind]:
            os.close(os.open(f"{path}/{file}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=dir_fd))

    def rmdir(path: str, *, dir_fd: int) -> None:
        shutil.rmtree(path, dir_fd=dir_fd)

    fake = SimpleNamespace(**vars(os))
    fake.mkdir, fake.rmdir = mkdir, rmdir
    monkeypatch.setattr(leaf_module, "os", fake)
    return unit


def found(folder: Path, mounts: str, own: str) -> tuple[Path, type[cgroup.Leaf]] | None:
    (folder / "mountinfo").write_text(f"22 1 0:20 / /proc rw - proc proc rw\n{mounts}")
    (folder / "own").write_text(own)
    leaves = cgroup.find(folder / "mountinfo", folder / "own")
    if leaves is None:
        return None
    leaves.close()
    return leaves.place, leaves.kind


def mount(kind: type[cgroup.Leaf], folder: Path, root: str = "/") -> str:
    if kind is LeafV2:
        return f"31 1 0:29 {root} {folder}/fs rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    return (
        f"30 1 0:28 {root} {folder}/pids rw - cgroup cgroup rw,pids\n"
        f"31 1 0:29 {root} {folder}/fs rw,nosuid shared:9 - cgroup cgroup rw,cpu,memory\n"
    )


def own(kind: type[cgroup.Leaf], path: str) -> str:
    return f"4:memory,cpu:/x\n0::{path}\n" if kind is LeafV2 else f"4:cpu,memory:{path}\n3:pids:/x\n0::/x\n"


def test_the_nearest_cgroup_that_can_hold_leaves_is_found(
    kind: type[cgroup.Leaf], tree: Path, tmp_path: Path
) -> None:
    """With v1 that is the one of this process; with v2 one above it, which hands controllers down."""
    expected = tree if kind is LeafV2 else tree / "main"
    assert found(tmp_path, mount(kind, tmp_path), own(kind, "/unit/main")) == (expected, kind)
    assert not list(tree.rglob("mappa-*"))


def test_a_mount_that_shows_a_part_of_the_hierarchy_is_understood(
    kind: type[cgroup.Leaf], tree: Path, tmp_path: Path
) -> None:
    shown = mount(kind, tmp_path, root="/host/box")
    assert found(tmp_path, shown, own(kind, "/host/box/unit")) == (tree, kind)
    assert found(tmp_path, shown, own(kind, "/host/other")) is None


@pytest.mark.parametrize("path", ["/../unit/main", "/"])
def test_a_cgroup_that_cannot_be_reached_holds_none(
    path: str, kind: type[cgroup.Leaf], tree: Path, tmp_path: Path
) -> None:
    assert found(tmp_path, mount(kind, tmp_path), own(kind, path)) is None


def test_no_cgroup_is_found_where_there_is_none(kind: type[cgroup.Leaf], tree: Path, tmp_path: Path) -> None:
    assert found(tmp_path, mount(kind, tmp_path), "") is None
    assert found(tmp_path, "", own(kind, "/unit/main")) is None


@pytest.mark.parametrize("kind", [LeafV1], indirect=True)
def test_v1_serves_where_v2_is_mounted_without_controllers(
    kind: type[cgroup.Leaf], tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.procs").touch()
    (tmp_path / "unified" / "cgroup.subtree_control").mkdir()  # not to be written, as root too
    hybrid = f"32 1 0:30 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n" + mount(kind, tmp_path)
    groups = own(kind, "/unit/main").replace("0::/x", "0::/")
    assert found(tmp_path, hybrid, groups) == (tree / "main", LeafV1)


def test_a_leaf_states_its_limits_and_reads_its_use(kind: type[cgroup.Leaf], tree: Path) -> None:
    with closing(cgroup.Leaves(tree, kind)) as leaves:
        leaf = leaves.new(memory_bytes=5000, processes=7)
        (folder,) = tree.glob("mappa-*")
        limits = [(folder / name).read_text() for name in FILES[kind] if name.startswith(("memory", "pids"))]
        assert limits == (["5000", "1", "7"] if kind is LeafV2 else ["5000", "5000"])
        assert leaf.oom_kills() == 0
        (folder / OOM[kind]).write_text("low 0\noom 3\noom_kill 2\n")
        assert leaf.oom_kills() == 2
        leaf.remove()
        assert not folder.exists()


def test_a_leaf_tells_whether_it_or_a_parent_was_full(kind: type[cgroup.Leaf], tree: Path) -> None:
    with closing(cgroup.Leaves(tree, kind)) as leaves:
        leaf = leaves.new(memory_bytes=1 << 30, processes=7)
        (folder,) = tree.glob("mappa-*")
        (folder / "memory.max_usage_in_bytes").write_text(f"{1 << 29}\n")
        (folder / OOM[kind]).write_text("oom 0\noom_kill 1\n")
        assert (leaf.oom_kills(), leaf.filled()) == (1, False)
        name, text = FULL[kind]
        (folder / name).write_text(text)
        assert leaf.filled()


def test_a_leaf_that_is_gone_is_no_error(kind: type[cgroup.Leaf], tree: Path) -> None:
    with closing(cgroup.Leaves(tree, kind)) as leaves:
        leaf = leaves.new(memory_bytes=5000, processes=7)
        leaf.remove()
        leaf.kill()
        leaf.remove()
        assert leaf.oom_kills() == 0
        assert not leaf.filled()


def test_leaves_that_lost_their_owner_are_swept(
    kind: type[cgroup.Leaf], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tree / "mappa-old"
    old.mkdir()
    cgroup.Leaves(tree, kind).close()
    assert old.exists()  # recent, so it may belong to another pool
    monkeypatch.setattr(leaf_module, "_STALE_S", -1.0)
    cgroup.Leaves(tree, kind).close()
    assert not old.exists()
    assert (tree / "main").exists()


@pytest.fixture
def sleeper() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_real_leaf_kills_all_it_holds(sleeper: Callable[[], subprocess.Popen[bytes]]) -> None:
    """Needs a cgroup2 mount with a writable root but no controllers: also runs on hybrid hierarchies."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    tops = [fields[4] for fields in mounts if "cgroup2" in fields[fields.index("-") :]]
    if not tops:
        pytest.skip("no cgroup2 on this machine")
    top = os.open(tops[0], os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            leaf = LeafV2(top)
        except OSError as error:
            pytest.skip(f"cgroup2 is not writable: {error}")
        held, entered, free = sleeper(), sleeper(), sleeper()
        try:
            leaf.add(held.pid)
            with open(leaf.entrance(), "w") as entrance:
                entrance.write(str(entered.pid))
            leaf.kill()
            assert (held.wait(DEADLINE_S), entered.wait(DEADLINE_S)) == (-9, -9)
            assert free.poll() is None
            with pytest.raises(ProcessLookupError):
                leaf.add(held.pid)
        finally:
            leaf.remove()
    finally:
        os.close(top)


BOMBS = {
    "memory": "blocks = []\nwhile True: blocks.append(b'x' * 2**20)",
    "processes": "import os, time\nwhile True: os.fork() or time.sleep(600)",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_real_limits_hold(bomb: str) -> None:
    found = cgroup.find()
    if found is None:
        pytest.skip("this process may make no cgroups")
    with closing(found) as leaves:
        if bomb == "processes" and leaves.kind is LeafV1:
            pytest.skip("the memory controller of cgroup v1 counts no processes")
        leaf = leaves.new(memory_bytes=64 << 20, processes=20)
        enter = "import sys\nsys.stdin.read(1)\n"
        command = [sys.executable, "-c", enter + BOMBS[bomb]]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            leaf.add(process.pid)
            assert process.stdin is not None
            process.stdin.write(b"x")
            process.stdin.close()
            end = process.wait(DEADLINE_S)
            kills = leaf.oom_kills()
            leaf.kill()  # the fork bomb's children hold the pipe open
            assert process.stderr is not None
            errors = process.stderr.read()
            if bomb == "memory":
                assert end == -9
                assert kills >= 1
            else:
                assert b"BlockingIOError" in errors
                assert kills == 0
        finally:
            leaf.remove()
            process.kill()
            process.wait()


STARVED = """
import os, signal, time
signal.signal(signal.SIGCHLD, lambda *_: None)
parent = os.getpid()
if os.fork() == 0:
    x = bytearray(b'1') * (90 << 20)
    os._exit(0)
while time.sleep(0.1) is None:
    pass
"""


def test_an_action_of_which_the_kernel_killed_one_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cgroup v1 kills one process at a time, so the host must end those that live on.

    The leaf allows less than the sandbox's own count, so the kernel is the one that finds it.
    """
    found = cgroup.find()
    if found is None:
        pytest.skip("this process may make no cgroups")
    found.close()
    new = cgroup.Leaves.new
    monkeypatch.setattr(
        cgroup.Leaves, "new", lambda self, memory_bytes, processes: new(self, 64 << 20, processes)
    )
    sandbox = LocalSandbox(concurrency=3)
    with sandbox.open_workspace() as workspace:
        result = sandbox.run(workspace, STARVED, wider(wall_s=60, memory_mb=512))
    assert (result.status, result.wall_s < 30) == ("memory", True), result


HUNGRY = """
open('kept.txt', 'w').write('done')
x = bytearray(b'1') * (150 << 20)
"""


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaves below a cgroup that allows all actions together less than any of them alone may use."""
    found = cgroup.find()
    if found is None:
        pytest.skip("this process may make no cgroups")
    found.close()
    parent = found.place / f"crowded-{os.getpid()}"
    parent.mkdir()
    name = "memory.max" if found.kind is LeafV2 else "memory.limit_in_bytes"
    (parent / name).write_text(str(64 << 20))
    new = cgroup.Leaves.new

    def below(self: cgroup.Leaves, memory_bytes: int, processes: int) -> cgroup.Leaf:
        with closing(cgroup.Leaves(parent, self.kind)) as leaves:
            inner = new(leaves, memory_bytes, processes)
            inner._parent = os.dup(leaves._fd)  # closed with this process
            return inner

    monkeypatch.setattr(cgroup.Leaves, "new", below)
    yield
    parent.rmdir()


def test_memory_that_others_used_is_no_limit_that_the_action_reached(crowded: None) -> None:
    """The files that it wrote stay its own, so nobody else is taken for their writer."""
    sandbox = LocalSandbox(concurrency=4)
    with sandbox.open_workspace() as workspace:
        result = sandbox.run(workspace, HUNGRY, wider(wall_s=60, memory_mb=512))
    assert (result.status, "others used it" in result.stderr) == ("unavailable", True), result
    assert [change.path for change in result.files] == ["kept.txt"]


def test_a_leaf_that_cannot_be_removed_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cgroup.find()
    if found is None:
        pytest.skip("this process may make no cgroups")
    found.close()
    remove = cgroup.Leaf.remove

    def busy(self: cgroup.Leaf, deadline_s: float = 10.0) -> None:
        remove(self, deadline_s)
        raise OSError(16, "Device or resource busy")

    sandbox = LocalSandbox(concurrency=5)
    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "pass", wider(wall_s=60))
        monkeypatch.setattr(cgroup.Leaf, "remove", busy)
        with pytest.warns(SandboxWarning, match="could not be removed"):
            result = sandbox.run(workspace, "open('a.txt', 'w').write('1')", wider(wall_s=60))
        monkeypatch.undo()
        after = sandbox.run(workspace, "pass", wider(wall_s=60))
    assert (result.status, [change.path for change in result.files]) == ("ok", ["a.txt"])
    assert after.files == ()


def test_the_least_limit_of_the_cgroups_bounds_the_machine(
    kind: type[cgroup.Leaf], tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "mountinfo").write_text(mount(kind, tmp_path))
    (tmp_path / "own").write_text(own(kind, "/unit/main"))
    files = tmp_path / "mountinfo", tmp_path / "own"
    machine = machine_memory(*files)
    name = "memory.max" if kind is LeafV2 else "memory.limit_in_bytes"
    (tree / "main" / name).write_text("max\n" if kind is LeafV2 else "9223372036854771712\n")
    assert machine_memory(*files) == machine
    (tree / name).write_text("300000000\n")
    assert machine_memory(*files) == 300_000_000
    assert machine_memory(tmp_path / "none", tmp_path / "none") == machine
