"""Sandbox processes that are killed at work must leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mappa_env.sandbox import Limits, Result
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.sandbox.local.exchange import Exchange
from mappa_env.sandbox.local.isolation_levels import LEVELS
from mappa_env.sandbox.local.link import Link, Retired
from mappa_env.workspace.workspace import Workspace

PATIENCE_S = 60
"""Seconds to wait for an expected event; long, because loaded machines are slow."""


EACH = [LEVELS[0], *(pytest.param(level, marks=pytest.mark.large) for level in LEVELS[1:])]
"""Both levels have the same processes; the attacks of ``tests/attacks`` run at both."""


@pytest.fixture(params=EACH)
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    """A sandbox with its own pool, which the test may destroy."""
    made = LocalSandbox(level=request.param, concurrency=65 + LEVELS.index(request.param))
    yield made
    made._pool().close()


def launcher(sandbox: LocalSandbox) -> psutil.Process:
    return psutil.Process(sandbox.level.template._process.pid)


def template(sandbox: LocalSandbox) -> psutil.Process:
    (only,) = launcher(sandbox).children()
    return only


def eventually(condition: object) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def in_flight(sandbox: LocalSandbox, count: int, code: str) -> tuple[list[Result], list[threading.Thread]]:
    """Start ``count`` actions, each with its own workspace."""
    results: list[Result] = []

    def one() -> None:
        with sandbox.open_workspace() as workspace:
            results.append(sandbox.run(workspace, code, Limits(wall_s=50)))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    return results, threads


def running(sandbox: LocalSandbox) -> int:
    """The number of processes with the code: confined ones have their own session or user."""
    return sum("agent-sleeps" in _name(child) for child in launcher(sandbox).children(recursive=True))


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


SLEEP = "import ctypes, time\nctypes.CDLL(None).prctl(15, b'agent-sleeps', 0, 0, 0)\ntime.sleep({})"


def test_a_killed_zygote_answers_for_every_action(sandbox: LocalSandbox) -> None:
    """Of 64 in flight, those that had begun are ``killed``; the others run elsewhere. Each has one answer."""
    sandbox.run(sandbox.open_workspace(), "", Limits())
    results, threads = in_flight(sandbox, 64, SLEEP.format(8))
    assert eventually(lambda: running(sandbox) >= 16)
    begun = running(sandbox)
    for zygote in template(sandbox).children():
        zygote.kill()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(results) == 64
    others = [result for result in results if result.status not in ("killed", "ok")]
    assert not others
    assert sum(result.status == "killed" for result in results) >= begun
    with sandbox.open_workspace() as workspace:
        assert sandbox.run(workspace, "print(1)", Limits()).stdout == "1\n"


@pytest.mark.parametrize("victim", ["template", "launcher"])
def test_after_a_killed_template_the_next_action_starts_another(sandbox: LocalSandbox, victim: str) -> None:
    with sandbox.open_workspace() as workspace:
        workspace.put("in.txt", b"abc")
        first = sandbox.run(workspace, "open('out.txt', 'w').write('1')", Limits())
        assert [f.path for f in first.files] == ["out.txt"]
        results, (thread,) = in_flight(sandbox, 1, SLEEP.format(45))
        assert eventually(lambda: running(sandbox) == 1)
        family = [launcher(sandbox), *launcher(sandbox).children(recursive=True)]
        (template if victim == "template" else launcher)(sandbox).kill()
        thread.join(PATIENCE_S)
        assert [result.status for result in results] in (["killed"], ["unavailable"])
        assert eventually(lambda: not any(_alive(process) for process in family))
        again = sandbox.run(workspace, "import os\nprint(sorted(os.listdir('.')))", Limits())
        assert (again.status, again.stdout, again.files) == ("ok", "['in.txt', 'out.txt']\n", ())


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


HOST = """
import sys, threading, time
from mappa_env.sandbox import Limits
from mappa_env.sandbox.local import LocalSandbox
sandbox = LocalSandbox(level=sys.argv[1])
workspace = sandbox.open_workspace()
workspace.put("a", b"1")
sandbox.run(workspace, "", Limits())
print("ready", flush=True)
sandbox.run(workspace, "import time\\ntime.sleep(50)", Limits(wall_s=60))
print("not reached", flush=True)
"""


@pytest.mark.parametrize("level", EACH)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_its_host(level: str, how: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", HOST, level]
    host = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    time.sleep(0.5)
    family = psutil.Process(host.pid).children(recursive=True)
    assert len(family) >= 3  # launcher, template, zygote
    host.send_signal(how)
    out, _ = host.communicate(timeout=PATIENCE_S)
    assert out == ""
    assert eventually(lambda: not any(_alive(process) for process in family))
    if how != signal.SIGKILL or level == "full":
        left = [] if how != signal.SIGTERM else os.listdir(tmp_path)
        assert left == [] or level == "landlock"
    with_sweep = "import mappa_env.workspace.workspace as w\nw.Workspace().path"
    subprocess.run([sys.executable, "-c", with_sweep], env=environment, check=True, timeout=PATIENCE_S)
    assert os.listdir(tmp_path) == []  # the next host removed what the killed one left


def test_a_pool_is_shared_and_bounds_what_runs_at_once() -> None:
    sandboxes = [LocalSandbox(concurrency=2) for _ in range(6)]
    assert len({id(sandbox._pool()) for sandbox in sandboxes}) == 1
    results: list[Result] = []

    def one(sandbox: LocalSandbox) -> None:
        with sandbox.open_workspace() as workspace:
            results.append(sandbox.run(workspace, "import time\ntime.sleep(0.5)", Limits()))

    threads = [threading.Thread(target=one, args=[sandbox]) for sandbox in sandboxes]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - started > 1.4  # six of half a second, two at a time
    assert [result.status for result in results] == ["ok"] * 6
    assert max(result.queued_s for result in results) > 0.8
    assert all(result.wall_s < result.queued_s + 30 for result in results)
    sandboxes[0]._pool().close()


def test_a_zygote_is_replaced_after_many_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mappa_env.sandbox.local.pool.RECYCLE", 5)
    sandbox = LocalSandbox(concurrency=3)
    with sandbox.open_workspace() as workspace:
        seen = set()
        for _ in range(11):
            assert sandbox.run(workspace, "", Limits()).status == "ok"
            seen |= {link.pid for link in sandbox._pool()._links if link.usable}
    assert len(seen) >= 2
    assert eventually(lambda: len(template(sandbox).children()) <= 1)
    sandbox._pool().close()


def test_a_fork_of_the_host_leaves_the_pool_to_its_parent(tmp_path: Path) -> None:
    sandbox = LocalSandbox()
    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "open('a', 'w').write('1')", Limits())
        child = os.fork()
        if child == 0:
            workspace.remove()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert sandbox.run(workspace, "print(open('a').read())", Limits()).stdout == "1\n"


def test_a_workspace_that_is_removed_twice_or_late() -> None:
    sandbox = LocalSandbox(concurrency=4)
    workspace: Workspace = sandbox.open_workspace()
    workspace.put("a", b"1")
    sandbox._pool().close()
    workspace.remove()
    workspace.remove()


def test_a_spare_child_that_dies_is_replaced(sandbox: LocalSandbox) -> None:
    """Zygotes keep one child ready, which may be killed, for instance by the OOM killer."""
    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "", Limits())
        for zygote in template(sandbox).children():
            for spare in zygote.children():
                spare.kill()
        assert sandbox.run(workspace, "print(1)", Limits()).stdout == "1\n"
        assert eventually(lambda: not any(p.status() == psutil.STATUS_ZOMBIE for p in _family(sandbox)))


def _family(sandbox: LocalSandbox) -> list[psutil.Process]:
    found = []
    for process in launcher(sandbox).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.status()
            found.append(process)
    return found


def test_a_host_that_gives_up_leaves_the_zygote_to_the_others(sandbox: LocalSandbox) -> None:
    """An interrupted action closes its end of the connection; this must not affect its neighbours."""
    with sandbox.open_workspace() as workspace, sandbox.open_workspace() as other:
        sandbox.run(workspace, "", Limits())
        results, threads = in_flight(sandbox, 3, SLEEP.format(4))
        assert eventually(lambda: running(sandbox) == 3)
        with pytest.raises(KeyboardInterrupt):
            _interrupted(sandbox, other)
        for thread in threads:
            thread.join(PATIENCE_S)
        assert [result.status for result in results] == ["ok"] * 3
        assert sandbox.run(other, "print(1)", Limits()).stdout == "1\n"
    assert eventually(lambda: running(sandbox) == 0)


def _interrupted(sandbox: LocalSandbox, workspace: Workspace) -> None:
    """Ctrl-C one second into an action of 40."""
    timer = threading.Timer(1.0, signal.raise_signal, [signal.SIGINT])
    timer.start()
    sandbox.run(workspace, SLEEP.format(40), Limits(wall_s=60))


def test_a_workspace_that_is_collected_in_the_midst_of_a_request() -> None:
    """Finalizers can run at any point, even while this thread holds the pool's lock."""
    sandbox = LocalSandbox(concurrency=5)
    first, second = sandbox.open_workspace(), sandbox.open_workspace()
    first.put("a", b"1")
    pool = sandbox._pool()
    with pool._lock:
        first.remove()
    second.put("a", b"2")
    assert not pool._dropped
    assert sandbox.run(second, "print(open('a').read())", Limits()).stdout == "2\n"
    pool.close()


def test_an_interrupt_between_question_and_answer_costs_the_template_not_the_truth() -> None:
    sandbox = LocalSandbox(concurrency=6)
    with sandbox.open_workspace() as workspace:
        workspace.put("a", b"1")
        template_ = sandbox.level.template
        held = template(sandbox)
        held.suspend()
        threading.Timer(3.0, held.resume).start()
        timer = threading.Timer(1.0, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            template_.ask(do="zygote")
        assert not template_.alive
        assert sandbox.run(workspace, "print(open('a').read())", Limits()).stdout == "1\n"
    sandbox._pool().close()


def test_an_action_that_meets_the_replacement_of_its_zygote_runs(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread retires the zygote after this one has chosen it and before it sends the action."""
    real, retired = Exchange.run, []

    def run(self: Exchange, link: Link, *args: Any) -> Any:
        if not retired:
            retired.append(link)
            link.close()
        return real(self, link, *args)

    with sandbox.open_workspace() as workspace:
        sandbox.run(workspace, "", Limits())
        monkeypatch.setattr(Exchange, "run", run)
        result = sandbox.run(workspace, "print(6 * 7)", Limits())
    assert (result.status, result.stdout, result.stderr) == ("ok", "42\n", "")
    assert retired


def test_a_connection_closed_meanwhile_sends_nothing(sandbox: LocalSandbox) -> None:
    link = sandbox._pool()._take()
    link.close()
    with pytest.raises(Retired):
        link.send({}, [])
    link.give_up()
    link.close()
