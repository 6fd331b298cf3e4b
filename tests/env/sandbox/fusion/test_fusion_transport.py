"""How much travels: many files and large ones, of which none may be lost, or make the next action void."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from fake_fusion import FakeFusion
from mappa_env.sandbox import Limits, Result, transfer
from mappa_env.sandbox.fusion import request
from mappa_env.sandbox.fusion import sandbox as fusion
from mappa_env.workspace import snapshot
from mappa_env.workspace.workspace import Workspace
from paths import ROOT

Run = Callable[..., Result]
MIB = 2**20


MOST = 50


@pytest.fixture
def few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit of 5,000 files to MOST, on the host and on the server."""
    path = "mappa_env/workspace/snapshot.py"
    text = (ROOT / path).read_text().replace("MAX_ENTRIES = 5_000", f"MAX_ENTRIES = {MOST}")
    assert str(MOST) in text
    modules = request._modules() | {path: base64.b64encode(text.encode()).decode()}
    monkeypatch.setattr(request, "_modules", lambda: modules)
    for module in (snapshot, transfer):
        monkeypatch.setattr(module, "MAX_ENTRIES", MOST)


@pytest.mark.usefixtures("few_entries")
@pytest.mark.parametrize("folder", ["", "deep/er/"])
def test_given_files_stay_whatever_is_created(run: Run, workspace: Workspace, folder: str) -> None:
    """The names of the new files come first in a listing that ends after MAX_ENTRIES."""
    given = folder + "z.csv"
    workspace.put(given, b"1,2")
    result = run(f"for i in range({MOST + 10}): open(f'a{{i}}', 'w').close()")
    assert result.status == "disk_limit"
    assert {change.op for change in result.files} == {"created"}
    carried = MOST - 1 - folder.count("/")
    assert len(result.files) == carried
    assert workspace.read(given) == b"1,2"
    assert f"[not carried back from the server: {MOST + 10 - carried} more]" in result.stderr
    result = run("print(open('" + given + "').read())")  # the next one is not void
    assert (result.status, result.stdout, result.files) == ("ok", "1,2\n", ())


@pytest.mark.usefixtures("few_entries")
def test_more_files_than_can_travel_are_refused_with_the_reason(
    run: Run, server: FakeFusion, workspace: Workspace
) -> None:
    for number in range(MOST + 1):
        workspace.put(str(number), b"1")
    result = run()
    assert result.status == "unavailable"
    assert "too large to send: 0.0 MiB in 51 files and folders; the most is 512 MiB and 50." in result.stderr
    assert server.bodies == []


def test_more_content_than_can_travel_is_refused_with_the_reason(
    run: Run, server: FakeFusion, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "MAX_PACK_BYTES", MIB)
    workspace.put("a", bytes(MIB + 1))
    result = run()
    assert result.status == "unavailable"
    assert result.stderr.startswith("the sandbox could not work: the workspace is too large to send: 1.0 MiB")
    assert "sandbox='local'" in result.stderr
    assert server.bodies == []


def test_code_cannot_write_so_much_that_the_next_action_is_void(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (transfer, fusion):
        monkeypatch.setattr(module, "MAX_PACK_BYTES", MIB)
    write = "import sys\nfor name in '{}': open(name, 'wb').write(bytes(400_000))"
    result = run(write.format("abcd"))
    assert result.status == "disk_limit"
    assert [change.path for change in result.files] == ["a", "b"]
    assert "[not carried back from the server: too large c, too large d]" in result.stderr
    assert run("import os\nprint(sorted(os.listdir()))").stdout == "['a', 'b']\n"


def test_files_do_not_pile_up_over_several_actions(run: Run, workspace: Workspace) -> None:
    workspace.put("given", bytes(300_000))
    limits = Limits(wall_s=60, disk_mb=1)
    write = "open('{}', 'wb').write(bytes(400_000))"
    assert [run(write.format(name), limits).status for name in "abc"] == ["ok", "ok", "disk_limit"]
    assert [entry.size for entry in workspace.snapshot.entries.values()] == [400_000, 400_000, 300_000]
    assert run("import os\nos.rename('a', 'c')", limits).status == "ok"
