"""The choice of isolation level on restricted machines, simulated by a seccomp filter around the host."""

from __future__ import annotations

import errno
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mappa_env.errors import SandboxTimeout
from mappa_env.sandbox.local import LocalSandbox, isolation_levels, start
from mappa_env.sandbox.local.isolation_levels import LEVELS, start_best

NUMBERS = {  # x86_64, aarch64
    "unshare": (272, 97),
    "setns": (308, 268),
    "landlock_create_ruleset": (444, 444),
    "mount": (165, 40),
}
COLUMN = {"x86_64": 0, "aarch64": 1}

HOST = """
import ctypes, sys, warnings
from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.sandbox import Limits, make_sandbox
libc = ctypes.CDLL(None, use_errno=True)
program = ctypes.create_string_buffer(bytes.fromhex(sys.argv[1]))
class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter((len(program) - 1) // 8, ctypes.addressof(program)))) == 0
"""
ONE_ACTION = """
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        sandbox = make_sandbox("local")
        with sandbox.open_workspace() as workspace:
            result = sandbox.run(workspace, "open('a', 'w').write('1')\\nprint(6 * 7)", Limits())
            print(result.isolation, result.status, result.stdout.strip(), [f.path for f in result.files])
print(len(seen), seen[0].category.__name__, str(seen[0].message))
"""
REFUSED = """
sandbox = make_sandbox("local")
try:
    sandbox.open_workspace().put("a", b"1")
except SandboxError as error:
    print("error:", error)
from mappa_env.workspace.workspace import Workspace
with Workspace() as workspace:
    result = sandbox.run(workspace, "print(1)", Limits())
print(result.status, result.stdout, result.stderr)
"""


def denying(*names: str) -> str:
    """A filter, as hex, that fails these calls with EPERM and allows all others."""
    numbers = [NUMBERS[name][COLUMN[platform.machine()]] for name in names]
    lines = [struct.pack("HBBI", 0x20, 0, 0, 0)]  # load the number of the call
    for position, number in enumerate(numbers):
        lines.append(struct.pack("HBBI", 0x15, len(numbers) - position, 0, number))
    lines.append(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))  # allow
    lines.append(struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | errno.EPERM))
    return b"".join(lines).hex()


def host(source: str, *denied: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", HOST + source, denying(*denied)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("denied", ["unshare", "setns", "mount"])
def test_without_namespaces_it_is_landlock_and_says_so_once(denied: str) -> None:
    first, second, warning = host(ONE_ACTION, denied)
    assert first == second == "landlock ok 42 ['a']"
    count, category, *message = warning.split(" ", 2)
    assert (count, category) == ("1", "SandboxWarning")
    assert "isolation='landlock', not 'full'" in message[0]
    assert "'full': full: " in message[0]  # followed by the step that failed


def test_without_landlock_it_refuses_and_names_the_remedy() -> None:
    text = "\n".join(host(REFUSED, "landlock_create_ruleset"))
    assert text.startswith("error: sandbox='local' cannot isolate code here: full: ")
    assert "landlock: Operation not permitted" in text
    assert "sandbox='process' works here, but does not isolate" in text
    assert "\nunavailable  the sandbox could not work: " in text  # no code ran


def test_a_level_asked_for_is_that_or_nothing() -> None:
    source = REFUSED.replace('make_sandbox("local")', 'make_sandbox({"name": "local", "level": "full"})')
    text = "\n".join(host(source, "unshare"))
    assert "error: sandbox='local' cannot isolate code here: full: unshare" in text
    assert "\nunavailable " in text


def test_a_slow_start_is_an_error_that_names_the_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 1\n")
    slow.chmod(0o755)
    monkeypatch.setattr(start, "START_S", 0.2)
    with pytest.raises(SandboxTimeout, match=r"at level 'full' did not answer within .* overloaded"):
        start.Template(str(slow), "full")


def test_a_slow_start_is_no_reason_to_isolate_less(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def template(python: str, level: str) -> None:
        tried.append(level)
        raise SandboxTimeout("slow")

    monkeypatch.setattr(isolation_levels, "Template", template)
    with pytest.raises(SandboxTimeout):
        start_best(sys.executable, None)
    assert tried == ["full"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_slow_trial_action_is_no_reason_either(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template = LocalSandbox(level=level).level.template
    monkeypatch.setattr(isolation_levels, "_TRIAL_S", 0.0)
    with pytest.raises(SandboxTimeout, match="overloaded"):
        isolation_levels._try(template)
