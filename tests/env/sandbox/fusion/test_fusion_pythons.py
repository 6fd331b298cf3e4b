"""The server's Python need not be the host's: what stays the same, and what cannot.

If MAPPA_FUSION_URL names a real server, its Python is tested too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fake_fusion import FakeFusion
from mappa_env.sandbox import Limits, Sandbox, make_sandbox
from other_pythons import oldest_python
from sandbox_story import STORY, tell

REAL = os.environ.get("MAPPA_FUSION_URL", "")
PLAIN = [code for code in STORY if "pandas" not in code]


@pytest.fixture(params=["oldest", "real"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param == "real":
        if not REAL:
            pytest.skip("MAPPA_FUSION_URL names no server")
        yield make_sandbox("fusion:" + REAL)
    else:
        with FakeFusion(oldest_python()) as server:
            yield make_sandbox("fusion:" + server.url)


def portable(seen: tuple[Any, ...]) -> tuple[Any, ...]:
    """What an action came to, less what differs between versions of Python and pandas.

    These are the format of tracebacks, ``hash`` of a string (other since 3.11), and the bytes of a pickle.
    """
    status, code, stdout, stderr, files = seen
    kept = [file[:2] if file[0].endswith(".pkl") else file for file in files]
    return status, code, re.sub(r"-?\d{12,}", "#", stdout), stderr.splitlines()[-1:], kept


def test_the_same_story_in_any_python(sandbox: Sandbox) -> None:
    for code, theirs, ours in zip(
        PLAIN, tell(sandbox, PLAIN), tell(make_sandbox("process"), PLAIN), strict=True
    ):
        assert portable(theirs) == portable(ours), code


def test_hashes_are_the_same_in_every_action(sandbox: Sandbox) -> None:
    code = "print(hash('x'), set('abcdefgh'))"
    with sandbox.open_workspace() as workspace:
        seen = {
            sandbox.run(workspace, code, Limits(wall_s=60), seed=seed).stdout for seed in (5, 2**32 + 5, 6)
        }
    assert len(seen) == 1


def test_hashes_are_those_of_sandboxes_on_this_machine() -> None:
    code, seen = "print(hash('x'), set('abcdefgh'))", set()
    with FakeFusion() as server:
        for sandbox in (make_sandbox("fusion:" + server.url), make_sandbox("process")):
            with sandbox.open_workspace() as workspace:
                seen.add(sandbox.run(workspace, code, Limits(wall_s=60), seed=5).stdout)
    assert len(seen) == 1


@pytest.mark.skipif(not REAL, reason="MAPPA_FUSION_URL names no server")
def test_a_real_server() -> None:
    seen = zip(STORY, tell(make_sandbox("fusion:" + REAL)), tell(make_sandbox("process")), strict=True)
    for code, theirs, ours in seen:
        assert portable(theirs) == portable(ours), code
