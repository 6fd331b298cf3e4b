"""Attacks, and the two assertions about each: it succeeds unconfined, and it fails in the sandbox."""

from __future__ import annotations

import functools
import os
import re
import string
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import pytest

from attacks.levels import LEVELS, Sandboxes
from attacks.residue import RESIDUE
from attacks.scene import HOST_KEY, Scene
from mappa_env.sandbox import Limits, Result
from mappa_env.workspace.workspace import Workspace

LIMITS = Limits(wall_s=120, cpu_s=60, disk_mb=64)
"""Wide limits: the attacks target the isolation, not the limits."""

LIBC = '''
import ctypes, os
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
def syscall(number, *arguments):
    """The result, or minus errno."""
    found = _libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)))
    return found if found != -1 else -ctypes.get_errno()
def reach(number, *arguments):
    """Whatever is neither forbidden nor unknown has reached the kernel."""
    found = syscall(number, *arguments)
    print({-1: "EPERM", -13: "EACCES", -38: "ABSENT"}.get(found, f"GOT {found}"), flush=True)
    return found
'''
"""Prelude for code that makes system calls by number."""


@dataclass(frozen=True)
class Run:
    """A finished attack, as the host sees it."""

    scene: Scene
    result: Result
    workspace: Workspace

    @property
    def stdout(self) -> str:
        return self.result.stdout

    def owner(self, name: str) -> int | None:
        """The host's user id of the owner of a file in the workspace."""
        root = self.workspace.storage.root
        try:
            path = os.path.join(f"/proc/self/fd/{root}" if isinstance(root, int) else root, name)
            return os.lstat(path).st_uid
        except FileNotFoundError:
            return None

    @property
    def names(self) -> set[str]:
        """The workspace's paths in the host's scan."""
        return set(self.workspace.scan().entries)


def printed_secret(run: Run) -> bool:
    """It printed success or the secret. Only stdout counts: a traceback would quote the attack's source."""
    return any(word in run.stdout for word in ("GOT", run.scene.token, HOST_KEY))


def touched(run: Run) -> bool:
    """It changed something outside the workspace."""
    return run.scene.touched


@dataclass(frozen=True)
class Attack:
    """``code`` is a ``string.Template`` over the scene's names; ``got`` decides from host facts and stdout
    whether the attack succeeded. ``then``, if given, runs next in another workspace and is judged instead.
    ``here`` replaces ``got`` for the unconfined run if the harm shows differently there. ``unproven`` says
    why there is no unconfined run. ``cage``: the unconfined run gets its own namespaces.
    """

    name: str
    code: str
    got: Callable[[Run], bool] = printed_secret
    then: str = ""
    here: Callable[[Run], bool] | None = None
    unproven: str = ""
    cage: bool = False
    limits: Limits = LIMITS


def table(sources: str, *, prelude: str = "", **common: Any) -> list[Attack]:
    """Parse attacks from one text: each is ``### name`` and its source, which follows ``prelude``.

    ``common``: fields that all of them share.
    """
    _, *sections = re.split(r"^### (\w+)\n", sources, flags=re.MULTILINE)
    return [
        Attack(name, prelude + code, **common)
        for name, code in zip(sections[::2], sections[1::2], strict=True)
    ]


def battery(attacks: Sequence[Attack]) -> tuple[Callable[..., None], Callable[..., None]]:
    """The two tests of a table of attacks: ``test_canary, test_contained = battery(ATTACKS)``."""
    assert len({attack.name for attack in attacks}) == len(attacks)
    proven = [attack for attack in attacks if not attack.unproven]

    @pytest.mark.parametrize("attack", proven, ids=attrgetter("name"))
    def canary(attack: Attack) -> None:
        prove(attack)

    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize("attack", attacks, ids=attrgetter("name"))
    def contained(attack: Attack, level: str, sandboxes: Sandboxes) -> None:
        contain(attack, level, sandboxes)

    return canary, contained


def prove(attack: Attack) -> None:
    """Assert that the attack succeeds unconfined; otherwise its failure would prove nothing."""
    scene = Scene(os.getuid())
    try:
        with Workspace() as workspace:
            run = unconfined(attack.code, scene, workspace, cage=attack.cage)
            if attack.then:
                with Workspace() as other:
                    run = unconfined(attack.then, scene, other, cage=attack.cage)
            if "ABSENT" in run.stdout:
                pytest.skip("this kernel does not support it")
            if os.getuid() != 0 and not (attack.here or attack.got)(run):
                pytest.skip("needs root")
            assert (attack.here or attack.got)(run), run.result
    finally:
        scene.close()


def contain(attack: Attack, level: str, sandboxes: Sandboxes) -> None:
    """Assert that the attack fails at ``level`` or is documented residue, and the sandbox still works."""
    sandbox = sandboxes[level]
    leak = RESIDUE.get(attack.name) if level == "landlock" else None
    scene = Scene(sandboxes.actor(level))
    try:
        with sandbox.open_workspace() as workspace:
            result = sandbox.run(workspace, fill(attack.code, scene), attack.limits)
            if attack.then:
                with sandbox.open_workspace() as other:
                    result = sandbox.run(other, fill(attack.then, scene), attack.limits)
            assert result.status != "unavailable", result
            assert result.isolation == level
            assert attack.got(Run(scene, result, workspace)) == bool(leak), (leak or "got through", result)
            after = sandbox.run(workspace, "print(6 * 7)", LIMITS)
            assert (after.status, after.stdout) == ("ok", "42\n"), after
    finally:
        scene.close()


def fill(code: str, scene: Scene) -> str:
    return string.Template(code).substitute(scene.names())


def unconfined(code: str, scene: Scene, workspace: Workspace, *, cage: bool = False) -> Run:
    """Run ``code`` as this user without a sandbox, with inheritable descriptors."""
    before = workspace.scan()
    bare = () if re.search(r"import (numpy|pandas|joblib)|from sklearn", code) else ("-S",)  # site is slow
    inherited = [os.open(path, os.O_RDONLY) for path in (scene.secret, scene.root)]
    started = time.monotonic()
    try:
        done = subprocess.run(
            [*(_cage() if cage else ()), sys.executable, "-E", "-s", *bare, "-c", fill(code, scene)],
            cwd=workspace.path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            pass_fds=inherited,
            start_new_session=True,
        )
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    result = Result(
        status="ok" if done.returncode == 0 else "error" if done.returncode > 0 else "killed",
        exit_code=done.returncode,
        stdout=done.stdout.decode("utf-8", "replace"),
        stderr=done.stderr.decode("utf-8", "replace"),
        wall_s=time.monotonic() - started,
        files=workspace.changes(before, workspace.scan()),
        isolation="none",
    )
    return Run(scene, result, workspace)


@functools.cache
def _cage() -> tuple[str, ...]:
    """Namespaces in which an attack can succeed without harm; its processes end with them."""
    user = () if os.getuid() == 0 else ("--user", "--map-root-user")
    command = ("unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--ipc", "--uts")
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs namespaces for the unconfined run: {error}")
    return command


def wider(**changes: Any) -> Limits:
    """The usual limits with ``changes``."""
    return replace(LIMITS, **changes)
