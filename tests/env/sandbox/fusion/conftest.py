"""A fake server, a workspace, and a sandbox that runs actions in it on that server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fake_fusion import FakeFusion
from mappa_env.sandbox import Limits, Result
from mappa_env.sandbox.fusion.sandbox import FusionSandbox
from mappa_env.workspace.workspace import Workspace

SMALL = Limits(wall_s=60, memory_mb=1024, disk_mb=8, output_cap_mb=1)
Run = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[FakeFusion]:
    with FakeFusion() as made:
        yield made


@pytest.fixture
def run(server: FakeFusion, workspace: Workspace) -> Run:
    """Runs actions on a server that the sandbox has met."""
    sandbox = FusionSandbox(server.url)
    sandbox._meet()
    server.bodies.clear()

    def go(code: str = "print(1)", limits: Limits = SMALL, seed: int = 7) -> Result:
        return sandbox.run(workspace, code, limits, seed=seed)

    return go
