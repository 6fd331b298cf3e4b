"""What the sandbox finds out about a server before the first action."""

from __future__ import annotations

import warnings

import pytest

from fake_fusion import FakeFusion
from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.sandbox import Limits, make_sandbox
from mappa_env.sandbox.fusion import report, request
from mappa_env.sandbox.fusion.sandbox import FusionSandbox
from mappa_env.workspace.workspace import Workspace
from other_pythons import NOBODY, python_for_nobody

SMALL = Limits(wall_s=60, memory_mb=1024, disk_mb=8)


def test_code_that_runs_as_the_server_itself_is_warned_about_once(
    server: FakeFusion, workspace: Workspace
) -> None:
    sandbox = make_sandbox("fusion:" + server.url)
    with pytest.warns(
        SandboxWarning, match=r"can forge its results.*'set_uid: 65534'.*docs/fusion.md"
    ) as seen:
        assert sandbox.run(workspace, "print(1)", SMALL).stdout == "1\n"
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sandbox.run(workspace, "print(2)", SMALL).stdout == "2\n"
    assert len(server.bodies) == 3  # one handshake


def test_code_that_runs_as_another_user_is_not_warned_about(workspace: Workspace) -> None:
    with FakeFusion(python_for_nobody(), NOBODY) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        result = make_sandbox("fusion:" + server.url).run(workspace, "import os\nprint(os.getuid())", SMALL)
    assert (result.status, result.stdout) == ("ok", f"{NOBODY}\n")


def test_a_server_that_cannot_start_python(workspace: Workspace) -> None:
    with FakeFusion(python="/nowhere/python") as server:
        sandbox = FusionSandbox(server.url)
        with pytest.raises(SandboxError) as caught:
            sandbox.check()
        result = sandbox.run(workspace, "print(1)", SMALL)
    expected = "the server failed: [Errno 2] No such file or directory: '/nowhere/python'"
    assert str(caught.value) == expected
    assert (result.status, result.stderr) == ("unavailable", f"the sandbox could not work: {expected}")


def test_a_server_whose_python_is_too_old(
    server: FakeFusion, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "OLDEST_PYTHON", (99, 1))
    result = make_sandbox("fusion:" + server.url).run(workspace, "print(1)", SMALL)
    assert result.status == "unavailable"
    assert "actions need 99.1 or newer" in result.stderr
    assert [body["code"] for body in server.bodies] == [request.source("handshake.py")]
