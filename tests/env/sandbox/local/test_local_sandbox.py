"""The local sandbox: what an action sees, what it leaves, and which limit ended it, at both levels."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mappa_env.errors import OptionError, SandboxError
from mappa_env.sandbox import Limits, Result, make_sandbox
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.sandbox.local.isolation_levels import LEVELS
from mappa_env.workspace.workspace import Workspace

Run = Callable[..., Result]


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> LocalSandbox:
    made = LocalSandbox(level=request.param)
    try:
        assert made.isolation == request.param
    except SandboxError as error:
        pytest.skip(f"this machine does not support it: {error}")
    return made


@pytest.fixture
def workspace(sandbox: LocalSandbox) -> Iterator[Workspace]:
    with sandbox.open_workspace() as made:
        yield made


@pytest.fixture
def run(sandbox: LocalSandbox, workspace: Workspace) -> Run:
    def call(code: str, seed: int = 0, **limits: Any) -> Result:
        return sandbox.run(workspace, code, Limits(**limits), seed=seed)

    return call


def test_output_status_and_level(run: Run, sandbox: LocalSandbox) -> None:
    result = run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)")
    assert (result.status, result.exit_code, result.stdout, result.stderr) == ("error", 3, "out\n", "err\n")
    assert (result.isolation, result.trust) == (sandbox.isolation, "kernel")
    assert result.wall_s > 0
    assert result.cpu_s > 0
    assert result.peak_rss > 2**20
    assert 0 <= result.queued_s < 60


def test_an_uncaught_error_reads_as_in_an_interpreter(run: Run) -> None:
    result = run("x = 1\nx / 0")
    assert (result.status, result.exit_code) == ("error", 1)
    assert result.stderr.splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "<action>", line 2, in <module>',
        "    x / 0",
    ]
    assert result.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_files_pass_from_action_to_action_and_nothing_else_does(run: Run, workspace: Workspace) -> None:
    workspace.put("given/in.txt", b"abc")
    first = run(
        "leak = 1\nimport os, tempfile\nos.environ['LEAK'] = '1'\nopen('given/in.txt', 'a').write('d')\n"
        "open('new', 'w').write('1')\nopen(tempfile.gettempdir() + '/leak', 'w').write('1')"
    )
    second = run(
        "import os, tempfile\nprint(open('given/in.txt').read(), 'leak' in globals(), 'LEAK' in os.environ, "
        "os.path.exists(tempfile.gettempdir() + '/leak'))"
    )
    assert first.status == "ok"
    assert second.stdout == "abcd False False False\n"
    assert [(f.path, f.op) for f in first.files] == [("given/in.txt", "modified"), ("new", "created")]
    assert second.files == ()


SLICE = """
import ctypes, os, struct
def slice_of(pid):
    number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]  # sched_getattr
    found = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(number, pid, found, 48, 0) == 0
    return struct.unpack("=IIQiIQQQ", found.raw)[5]
"""
"""The processor time that a process gets at once, in nanoseconds."""


def test_checks_come_before_other_work_and_an_action_comes_as_any_other(
    run: Run, sandbox: LocalSandbox
) -> None:
    scope: dict[str, Any] = {}
    exec(SLICE, scope)  # noqa: S102  (ours)
    own = scope["slice_of"](0)
    if own == 0:
        pytest.skip("kernels before 6.12 have no slices")
    result = run(SLICE + "print(slice_of(0), os.getppid())")
    found, zygote = map(int, result.stdout.split())
    assert found == own
    if sandbox.isolation == "landlock":  # elsewhere an action cannot tell its zygote's number
        assert 0 < scope["slice_of"](zygote) < own


def test_same_seed_same_numbers(run: Run) -> None:
    code = "import random, numpy\nprint(random.random(), numpy.random.rand(), hash('a'))"
    first, again, other = run(code, seed=7), run(code, seed=7), run(code, seed=8)
    assert first.stdout == again.stdout
    assert first.stdout.split()[2] == other.stdout.split()[2]
    assert first.stdout.split()[:2] != other.stdout.split()[:2]


@pytest.mark.parametrize(
    ("code", "limits", "status"),
    [
        ("while True: pass", {"wall_s": 2.5}, "timeout"),
        ("import time\ntime.sleep(60)", {"wall_s": 2.5}, "timeout"),
        ("while True: pass", {"wall_s": 30, "cpu_s": 1}, "timeout"),
        ("bytearray(4 << 30)", {}, "memory"),
        ("x = []\nwhile True: x.append(bytes(1 << 20))", {"memory_mb": 300}, "memory"),
        ("import os, time\nwhile True: os.fork() or time.sleep(60)", {"wall_s": 50}, "killed"),
        ("import os\nos.abort()", {}, "killed"),
        ("while True: print('x' * 100000)", {"output_cap_mb": 1}, "output_limit"),
        ("open('f', 'wb').write(bytes(40 << 20))", {"disk_mb": 16}, "disk_limit"),
        ("for i in range(40): open(f'f{i}', 'wb').write(bytes(1 << 20))", {"disk_mb": 16}, "disk_limit"),
    ],
)
def test_every_limit_that_strikes_is_named(run: Run, code: str, limits: dict[str, Any], status: str) -> None:
    result = run("print('begun', flush=True)\n" + code, **limits)
    assert result.status == status, result.stderr
    assert result.stdout.startswith("begun\n")  # earlier output is kept


def test_a_limit_that_was_not_met_cannot_be_claimed(run: Run) -> None:
    named = "import ctypes, os\nctypes.CDLL(None).prctl(15, b'{}', 0, 0, 0)\nos._exit(1)"
    for name in ("memory:", "memory:0123abcd", "disk:", "proces:00000000", "\\xff\\xfe"):
        assert run(named.format(name)).status == "error"
    assert run("import errno\nraise OSError(errno.ENOSPC, 'full')").status == "error"
    assert run("raise BlockingIOError(11, 'again')").status == "error"


def test_no_process_outlives_its_action(run: Run, workspace: Workspace) -> None:
    survivor = textwrap.dedent("""
        import os, time
        for _ in range(3):
            if os.fork() == 0:
                try: os.setsid()
                except OSError: pass
                if os.fork() == 0:
                    time.sleep(1)
                    open('late', 'w').write('1')
                    os._exit(0)
                os._exit(0)
        print('gone')
    """)
    assert run(survivor).stdout == "gone\n"
    assert run("import time\ntime.sleep(1.5)").files == ()
    assert "late" not in workspace.scan().entries


def test_the_environment_is_scrubbed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    result = run("import os\nprint(sorted(os.environ))")
    assert "SECRET" not in result.stdout
    assert "PYTHONHASHSEED" in result.stdout


def test_a_foreign_workspace_moves_in(sandbox: LocalSandbox) -> None:
    """A workspace that another sandbox opened: a plain folder whose files belong to the host's user."""
    with Workspace() as workspace:
        workspace.put("sub/a", b"1")
        result = sandbox.run(
            workspace, "open('sub/a', 'a').write('2')\nopen('sub/b', 'w').write('3')", Limits()
        )
        assert (result.status, result.stderr) == ("ok", "")
        assert [(f.path, f.op) for f in result.files] == [("sub/a", "modified"), ("sub/b", "created")]
        assert (workspace.path / "sub/a").read_bytes() == b"12"


def test_another_interpreter(workspace: Workspace) -> None:
    """Any interpreter with the standard library works; this test renames our base interpreter."""
    base = os.path.realpath(sys.executable)
    result = LocalSandbox(python=base).run(workspace, "import sys\nprint(sys.prefix)", Limits())
    assert result.stdout.strip() == sys.base_prefix, result.stderr


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="Did you mean 'full'"):
        make_sandbox({"name": "local", "level": "ful"})
    with pytest.raises(OptionError, match="at least 1"):
        make_sandbox({"name": "local", "concurrency": 0})
    with pytest.raises(SandboxError, match=r"/nowhere.*does not run as a Python interpreter"):
        _ = LocalSandbox(python="/nowhere/python", level="full").isolation


def test_a_child_that_cannot_be_confined_runs_nothing(sandbox: LocalSandbox, workspace: Workspace) -> None:
    """If a step fails, here by limits that the kernel refuses, the host gets the error and no code runs."""
    result = sandbox.run(workspace, "open('ran', 'w').write('1')", Limits(memory_mb=2**50))
    assert result.status == "unavailable"
    assert "the sandbox could not work" in result.stderr
    assert "ran" not in workspace.scan().entries
    assert sandbox.run(workspace, "print(1)", Limits()).stdout == "1\n"
