"""cgroup v2 leaves: on a fake tree, and on the real one if it is delegated to this process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from mappa_env.sandbox.local import cgroup

DEADLINE_S = 60.0


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake hierarchy of plain files: `unit` enables memory and pids, `unit/main` contains the processes."""
    unit = tmp_path / "fs" / "unit"
    (unit / "main").mkdir(parents=True)
    for place in (unit, unit / "main"):
        (place / "cgroup.procs").touch()
    (unit / "cgroup.subtree_control").write_text("memory pids\n")

    def mkdir(path: str, *, dir_fd: int) -> None:
        os.mkdir(path, dir_fd=dir_fd)
        for file in ("cgroup.procs", "cgroup.kill", "memory.max", "memory.oom.group", "pids.max"):
            os.close(os.open(f"{path}/{file}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=dir_fd))

    def rmdir(path: str, *, dir_fd: int) -> None:
        shutil.rmtree(path, dir_fd=dir_fd)

    fake = SimpleNamespace(**vars(os))
    fake.mkdir, fake.rmdir = mkdir, rmdir
    monkeypatch.setattr(cgroup, "os", fake)
    return unit


def found(folder: Path, mount: str, own: str) -> Path | None:
    (folder / "mountinfo").write_text(f"22 1 0:20 / /proc rw - proc proc rw\n{mount}")
    (folder / "own").write_text(own)
    return cgroup.find(folder / "mountinfo", folder / "own")


def test_the_nearest_cgroup_that_hands_controllers_down_is_found(tree: Path, tmp_path: Path) -> None:
    mount = f"31 1 0:29 / {tmp_path}/fs rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    assert found(tmp_path, mount, "4:memory:/x\n0::/unit/main\n") == tree
    assert sorted(path.name for path in tree.iterdir()) == ["cgroup.procs", "cgroup.subtree_control", "main"]


def test_a_mount_that_shows_a_part_of_the_hierarchy_is_understood(tree: Path, tmp_path: Path) -> None:
    mount = f"31 1 0:29 /host/box {tmp_path}/fs rw - cgroup2 cgroup2 rw\n"
    assert found(tmp_path, mount, "0::/host/box/unit/main\n") == tree
    assert found(tmp_path, mount, "0::/host/other\n") is None


@pytest.mark.parametrize("own", ["", "4:memory:/unit\n", "0::/../unit/main\n", "0::/\n"])
def test_no_cgroup_is_found_where_there_is_none(own: str, tree: Path, tmp_path: Path) -> None:
    mount = f"31 1 0:29 / {tmp_path}/fs rw - cgroup2 cgroup2 rw\n"
    assert found(tmp_path, mount, own) is None
    assert found(tmp_path, "", "0::/unit/main\n") is None


def test_a_leaf_states_its_limits_and_reads_its_use(tree: Path) -> None:
    with closing(cgroup.Leaves(tree)) as leaves:
        leaf = leaves.new(memory_bytes=5000, processes=7)
        (folder,) = tree.glob("mappa-*")
        limits = [(folder / name).read_text() for name in ("memory.max", "memory.oom.group", "pids.max")]
        assert limits == ["5000", "1", "7"]
        assert leaf.usage() == (None, 0)
        (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
        (folder / "memory.peak").write_text("4096\n")
        assert leaf.usage() == (4096, 2)
        leaf.remove()
        assert not folder.exists()


def test_a_leaf_that_is_gone_is_no_error(tree: Path) -> None:
    with closing(cgroup.Leaves(tree)) as leaves:
        leaf = leaves.new(memory_bytes=5000, processes=7)
        leaf.remove()
        leaf.kill()
        leaf.remove()
        assert leaf.usage() == (None, 0)


def test_leaves_that_lost_their_owner_are_swept(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tree / "mappa-old"
    old.mkdir()
    cgroup.Leaves(tree).close()
    assert old.exists()  # recent, so it may belong to another pool
    monkeypatch.setattr(cgroup, "_STALE_S", -1.0)
    cgroup.Leaves(tree).close()
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
            leaf = cgroup.Leaf(top)
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
    place = cgroup.find()
    if place is None:
        pytest.skip("no cgroup with memory and pids was delegated to this process")
    with closing(cgroup.Leaves(place)) as leaves:
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
            usage = leaf.usage()
            leaf.kill()  # the fork bomb's children hold the pipe open
            assert process.stderr is not None
            errors = process.stderr.read()
            assert usage.peak_bytes is None or 4 << 20 < usage.peak_bytes <= 64 << 20
            if bomb == "memory":
                assert end == -9
                assert usage.oom_kills >= 1
            else:
                assert b"BlockingIOError" in errors
                assert usage.oom_kills == 0
        finally:
            leaf.remove()
            process.kill()
            process.wait()
